import type { DriverSnapshot } from '@egpu/core/driver'
import { observe } from '../../src/observe.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { treeOf } from '../machines/build.ts'
import { machines } from '../machines/index.ts'
import { memorySysfs } from '../machines/tree.ts'
import type { Tree } from '../machines/tree.ts'
import { mutateTree } from './mutate.ts'
import { seeded } from './random.ts'

/** What must hold of every snapshot, whatever was read. */
export function faultsOf(snapshot: DriverSnapshot): readonly string[] {
  const faults: string[] = []
  const { devices, enclosures, findings } = snapshot
  if (new Set(devices.map(({ key }) => key)).size !== devices.length) faults.push('keys repeat')
  for (const { verdict, link, gpu, stage, kernelDriver } of devices) {
    const confidence = verdict?.confidence ?? 0
    if (!(confidence >= 0 && confidence <= 1)) faults.push(`confidence ${confidence}`)
    if (verdict?.transport !== undefined && verdict.conclusion !== 'external')
      faults.push('transport of an internal GPU')
    if (kernelDriver === undefined && stage === 'ready') faults.push('ready without a driver')
    const bandwidth = link?.effectiveGBps?.toDevice
    if (bandwidth !== undefined && !(bandwidth > 0)) faults.push(`bandwidth ${bandwidth}`)
    for (const { lanes, kind, gtPerSecond } of link?.hops ?? []) {
      if (lanes === 255) faults.push('255 lanes')
      if (kind === 'virtual' && gtPerSecond !== undefined) faults.push('the speed of a tunnelled hop')
    }
    for (const id of [gpu.vendorId, gpu.deviceId, gpu.subsystemDeviceId]) {
      if (id !== undefined && !(id >= 0 && id <= 0xffff)) faults.push(`id ${id}`)
    }
  }
  // oxlint-disable-next-line no-control-regex
  const controls = /[\u0000-\u001f\u007f-\u009f]/
  for (const { name, vendorName } of enclosures) {
    if (controls.test(`${name}${vendorName}`)) faults.push('control characters in a name')
  }
  for (const { seen, advice } of findings) {
    if (/undefined|NaN|function/.test(seen + advice) || controls.test(seen + advice)) faults.push(`${seen} ${advice}`)
  }
  return faults
}

/** What is worth mutating: the attributes that reading opens, and the links that make the tree. */
async function targetsIn(tree: Tree): Promise<readonly string[]> {
  const targets = new Set([...tree].filter(([, entry]) => typeof entry === 'object').map(([path]) => path))
  const note = (_: string, real: string | undefined): void => {
    if (real !== undefined && tree.has(real)) targets.add(real)
  }
  await readTopology(memorySysfs(tree, note))
  return [...targets]
}

/** A recorded machine with what is worth mutating in it. */
export interface Subject {
  readonly name: string
  readonly tree: Tree
  readonly targets: readonly string[]
}

export function subjects(): Promise<readonly Subject[]> {
  return Promise.all(
    machines.map(async (machine) => {
      const tree = treeOf(machine)
      return { name: machine.name, tree, targets: await targetsIn(tree) }
    }),
  )
}

/** Reads and judges mutated machines; the first one that crashes or breaks a rule, if any. */
export async function fuzzMachines(count: number, seed: number): Promise<unknown> {
  const random = seeded(seed)
  const all = await subjects()
  for (let round = 0; round < count; round += 1) {
    const { name, tree, targets } = all[round % all.length] as Subject
    const mutated = mutateTree(tree, targets, random)
    try {
      const faults = faultsOf(observe(await readTopology(memorySysfs(mutated))))
      if (faults.length > 0) return { round, name, faults }
    } catch (error) {
      return { round, name, error }
    }
  }
  return undefined
}

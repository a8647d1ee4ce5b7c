import type { DriverSnapshot } from '@egpu/core/driver'
import { describe, expect, it } from 'vitest'
import { observe } from '../../src/observe.ts'
import { routerUidOf } from '../../src/enclosure/router-uid.ts'
import * as parse from '../../src/sysfs/parse.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { treeOf } from '../machines/build.ts'
import { machines } from '../machines/index.ts'
import { memorySysfs } from '../machines/tree.ts'
import type { Tree } from '../machines/tree.ts'
import { mutateText, mutateTree } from './mutate.ts'
import { seeded } from './random.ts'

/** `EGPU_FUZZ=100000` makes it a long run. */
const treeCount = Number(process.env['EGPU_FUZZ'] ?? 1000)
const valueCount = 100_000

/** What must hold of every snapshot, whatever was read. */
function faultsOf(snapshot: DriverSnapshot): readonly string[] {
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

describe('fuzz', () => {
  it(`survives ${treeCount} mutated machines, and keeps what must hold`, { timeout: 3_600_000 }, async () => {
    const random = seeded(20_261_130)
    const subjects = await Promise.all(
      machines.map(async (machine) => {
        const tree = treeOf(machine)
        return { name: machine.name, tree, targets: await targetsIn(tree) }
      }),
    )
    const failures: unknown[] = []
    for (let count = 0; count < treeCount && failures.length === 0; count += 1) {
      const { name, tree, targets } = subjects[count % subjects.length] as (typeof subjects)[number]
      const mutated = mutateTree(tree, targets, random)
      try {
        const faults = faultsOf(observe(await readTopology(memorySysfs(mutated))))
        if (faults.length > 0) failures.push({ count, name, faults })
      } catch (error) {
        failures.push({ count, name, error })
      }
    }
    expect(failures).toEqual([])
  })

  it(`parses ${valueCount} mutated values without throwing`, () => {
    const random = seeded(7)
    const texts = machines.flatMap((machine) =>
      [...treeOf(machine).values()].filter((entry) => typeof entry === 'string'),
    )
    const parsers = [...Object.values(parse).filter((one) => typeof one === 'function'), routerUidOf]
    const results = new Set<string>()
    for (let count = 0; count < valueCount; count += 1) {
      const text = mutateText(texts[count % texts.length] as string, random)
      for (const parser of parsers) results.add(typeof (parser as (text: string) => unknown)(text))
    }
    expect(results).toContain('undefined')
    expect(results).toContain('number')
  })
})

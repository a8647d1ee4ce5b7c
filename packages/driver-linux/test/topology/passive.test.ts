import { describe, expect, it } from 'vitest'
import { attributes } from '../../src/sysfs/attributes.ts'
import type { Attribute } from '../../src/sysfs/attributes.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { treeOf } from '../machines/build.ts'
import { machineNamed, machines } from '../machines/index.ts'
import type { Machine } from '../machines/machine.ts'
import { memorySysfs } from '../machines/tree.ts'

/** Longest first, so that `power/runtime_status` is not taken for something called `runtime_status`. */
const names = (Object.keys(attributes) as Attribute[]).sort((one, other) => other.length - one.length)

interface Opened {
  readonly path: string
  readonly directory: string
  readonly attribute: Attribute | undefined
  /** It is not passive. */
  readonly waking: boolean
  readonly asleep: boolean
}

/** Every attribute that reading a machine opens, in order. */
async function openedOn(machine: Machine, wakeSuspended: boolean = false): Promise<readonly Opened[]> {
  const opened: Opened[] = []
  const tree = treeOf(machine)
  const sysfs = memorySysfs(tree, (path) => {
    const attribute = names.find((name) => path.endsWith(`/${name}`))
    const directory = path.slice(0, path.length - (attribute?.length ?? 0) - 1)
    const asleep = tree.get(`${directory}/power/runtime_status`) === 'suspended\n'
    opened.push({
      path,
      directory,
      attribute,
      waking: attribute !== undefined && attributes[attribute] === 'awake',
      asleep,
    })
  })
  await readTopology(sysfs, { wakeSuspended })
  return opened
}

describe('reading a machine', () => {
  it.each(machines.map((machine) => [machine.name, machine] as const))(
    'opens nothing outside the list, and nothing that would wake a sleeping device: %s',
    async (_, machine) => {
      const opened = await openedOn(machine)
      expect(opened.length).toBeGreaterThan(0)
      expect(opened.filter(({ attribute }) => attribute === undefined)).toEqual([])
      expect(opened.filter(({ waking, asleep }) => waking && asleep)).toEqual([])
    },
  )

  it('asks for the state of a device before anything that could wake it', async () => {
    for (const machine of machines) {
      const known = new Set<string>()
      const tooEarly: string[] = []
      for (const { attribute, directory, path, waking } of await openedOn(machine)) {
        if (attribute === 'power/runtime_status') known.add(directory)
        if (waking && !known.has(directory)) tooEarly.push(path)
      }
      expect(tooEarly).toEqual([])
    }
  })

  it('reads sleeping devices when asked to, so the tests above can fail', async () => {
    const machine = machineNamed('external-gpu-in-d3cold')
    const opened = await openedOn(machine, true)
    const woken = opened.filter(({ waking, asleep }) => waking && asleep)
    expect(woken.length).toBeGreaterThan(0)
  })

  it('never opens configuration space or monitor data', async () => {
    for (const machine of machines) {
      const opened = await openedOn(machine)
      expect(opened.filter(({ path }) => /\/(?:config|edid|rom|resource\d)$/.test(path))).toEqual([])
    }
  })

  it('costs one attribute for a function that is of no interest', async () => {
    const machine = machineNamed('virtual-machine-without-gpu')
    const opened = await openedOn(machine)
    const perFunction = opened.filter(({ path }) => path.includes('/pci0000:00/'))
    expect(perFunction.map(({ attribute }) => attribute)).toEqual(machine.pci.map(() => 'uevent'))
  })
})

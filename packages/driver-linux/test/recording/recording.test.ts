import { describe, expect, it } from 'vitest'
import { linuxDriver, recordMachine, type MachineRecording } from '../../src/index.ts'
import { buildMachine, machineNamed, machines } from '../machines/index.ts'
import type { Machine } from '../machines/machine.ts'

type Snapshot = Awaited<ReturnType<ReturnType<typeof linuxDriver>['list']>>

interface Look {
  readonly snapshot: Snapshot
  readonly recording: MachineRecording
}

/** The machine as the driver sees it, and its recording after a journey through JSON. */
async function lookAt(machine: Machine): Promise<Look> {
  using built = buildMachine(machine)
  const { sysfsRoot, procRoot } = built
  await using driver = linuxDriver({ sysfsRoot, procRoot, overrides: machine.overrides ?? [] })
  const recording = JSON.parse(JSON.stringify(await recordMachine({ sysfsRoot, procRoot }))) as MachineRecording
  return { snapshot: await driver.list(), recording }
}

const ids = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|(?<=")[\da-f]{16}(?=")/g

/** An answer without the ids that a recording replaces. */
function essence({ devices, enclosures, findings }: Snapshot): unknown {
  const answer = {
    devices: devices.map(({ verdict, link, stage, gpu }) => ({ verdict, link, stage, gpu })),
    boxes: enclosures.map(({ name, authorized, link, port }) => ({ name, authorized, link, port })),
    joins: devices.map(({ enclosureId }) => enclosures.findIndex(({ id }) => id === enclosureId)),
    findings: findings.map(({ code, severity }) => ({ code, severity })),
  }
  return JSON.parse(JSON.stringify(answer).replaceAll(ids, 'an id'))
}

function secretsOf({ thunderbolt }: Machine): readonly string[] {
  if (thunderbolt === undefined || thunderbolt === 'no-module') return []
  return thunderbolt.flatMap(({ routers = [], peers = [] }) => [
    ...routers.map(({ uuid }) => uuid),
    ...peers.flatMap(({ uuid, hostName }) => [uuid, hostName]),
  ])
}

describe('a recording', () => {
  it.each(machines.map((machine) => [machine.name, machine] as const))(
    'of %s shows what the machine shows, and neither its ids nor the names of its neighbours',
    async (_name, machine) => {
      const { snapshot, recording } = await lookAt(machine)
      await using replayed = linuxDriver({ recording, overrides: machine.overrides ?? [] })
      expect(essence(await replayed.list())).toEqual(essence(snapshot))
      const text = JSON.stringify(recording)
      for (const secret of secretsOf(machine)) expect(text).not.toContain(secret)
    },
  )

  it('holds secrets to be replaced on at least ten machines, or the test above says nothing', () => {
    expect(machines.filter((machine) => secretsOf(machine).length > 0).length).toBeGreaterThan(10)
  })

  it('is never changed', async () => {
    const { recording } = await lookAt(machineNamed('1'))
    await using driver = linuxDriver({ recording })
    const { devices } = await driver.list()
    const key = devices.find(({ verdict }) => verdict?.conclusion === 'external')?.key ?? ''
    const plan = await driver.safeRemoval?.plan(key)
    expect(plan?.refusals.join()).toContain('recorded machine')
  })
})

describe('a damaged recording', () => {
  it('is refused with what is wrong', async () => {
    const { recording } = await lookAt(machineNamed('1'))
    const wrong: readonly [unknown, RegExp][] = [
      [null, /no recording/],
      [[], /no recording/],
      [{ kind: 'something-else' }, /no recording/],
      [{ ...recording, version: 2 }, /version 2.*update/],
      [{ ...recording, sysfs: undefined }, /damaged/],
      [{ ...recording, usb: [{ vendorId: 'x' }] }, /damaged/],
      [{ ...recording, sysfs: { ...recording.sysfs, reads: { 'a/b': 7 } } }, /damaged/],
      [{ ...recording, sysfs: { ...recording.sysfs, lists: { a: [null] } } }, /damaged/],
      [{ ...recording, sysfs: { ...recording.sysfs, links: { a: {} } } }, /damaged/],
    ]
    for (const [value, message] of wrong)
      expect(() => linuxDriver({ recording: value as MachineRecording })).toThrow(message)
  })

  it('with a prototype in its keys reads nothing but what it holds', async () => {
    const { recording } = await lookAt(machineNamed('1'))
    const sysfs = { reads: {}, lists: { 'bus/pci/devices': ['__proto__', 'constructor'] }, links: {} }
    await using driver = linuxDriver({ recording: { ...recording, sysfs } })
    expect(await driver.list()).toMatchObject({ devices: [], enclosures: [] })
  })
})

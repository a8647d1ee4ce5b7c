import { describe, expect, it } from 'vitest'
import { uuid } from '../machines/parts.ts'
import { box, card, gpu, gpuPath, pci, plugged, Replay, retimer, rootPort, router } from './replay.ts'

describe('a plug', () => {
  it('is told stage by stage: box, GPU, GPU ready', () => {
    const replay = new Replay({})
    expect(replay.take()).toEqual(['0 resync'])
    replay.pass(1000)

    replay.uevent(retimer('add'))
    replay.machine = { boxes: [[{ ...box, authorized: false }, '0-1']] }
    replay.uevent(router('add'))
    replay.pass(1000)
    expect(replay.take()).toEqual(['1015 enclosure-observed'])

    replay.machine = { boxes: [[{ ...box, authorized: true }, '0-1']] }
    replay.uevent(router('change', { AUTHORIZED: '1' }))
    replay.pass(1000)
    expect(replay.take()).toEqual(['2015 enclosure-observed'])

    const present = gpu({ stage: 'present', kernelDriver: undefined })
    replay.machine = { boxes: [[{ ...box, authorized: true }, '0-1']], devices: [[present, gpuPath]] }
    replay.uevent(pci('add', `${rootPort}/0000:02:00.0`))
    replay.uevent(pci('add'))
    replay.pass(1000)
    expect(replay.taken()).toEqual([{ type: 'device-observed', device: present }])

    replay.machine = { boxes: [[{ ...box, authorized: true }, '0-1']], devices: [[gpu(), gpuPath]] }
    replay.uevent(card('add'))
    replay.uevent(pci('bind'))
    replay.pass(1000)
    expect(replay.taken()).toEqual([{ type: 'device-observed', device: gpu() }])
  })

  it('looks a few times, not once per event', () => {
    const replay = new Replay({})
    replay.pass(1000)
    replay.looks = 0
    for (let count = 0; count < 200; count++) {
      replay.uevent(pci('add', `${rootPort}/0000:${(count + 16).toString(16)}:00.0`))
      replay.pass(1)
    }
    replay.pass(1000)
    expect(replay.looks).toBeLessThanOrEqual(6)
    expect(replay.looks).toBeGreaterThanOrEqual(2)
  })
})

describe('a pulled cable', () => {
  it('is told with the first sign, confirmed by the driver, and ends with the removal (the order of Xid 79)', () => {
    const replay = new Replay(plugged)
    replay.pass(1000)
    replay.take()
    replay.uevent(retimer('remove'))
    replay.machine = { devices: [[gpu({ enclosureId: undefined }), gpuPath]] }
    replay.uevent(router('remove'))
    expect(replay.take()).toEqual(['1000 device-leaving', '1000 enclosure-removed'])
    replay.pass(700)
    expect(replay.take()).toEqual([])
    replay.uevent(pci('unbind'))
    expect(replay.take()).toEqual(['1700 device-lost'])
    replay.pass(4000)
    replay.machine = {}
    replay.uevent(pci('remove'))
    replay.pass(20_000)
    expect(replay.taken()).toEqual([{ type: 'device-removed', key: gpu().key, graceful: false }])
  })

  it('becomes a wedge when the kernel still lists the GPU after ten seconds, and not a moment before', () => {
    const replay = new Replay(plugged)
    replay.machine = { devices: [[gpu({ enclosureId: undefined }), gpuPath]] }
    replay.uevent(router('remove'))
    replay.take()
    replay.pass(9_999)
    expect(replay.take()).toEqual([])
    replay.pass(1)
    expect(replay.take()).toEqual(['10000 device-wedged'])
    replay.pass(60_000)
    const found = [{ code: 'gpu-wedged', severity: 'error', deviceId: gpu().key }]
    expect(replay.taken()).toMatchObject([{ type: 'findings-observed', findings: found }])
    replay.send({ type: 'resync', reason: 'safety-rescan' })
    expect(replay.taken()).toMatchObject([
      { type: 'resync', snapshot: { devices: [{ stage: 'wedged' }], findings: found } },
    ])
    replay.machine = {}
    replay.uevent(pci('remove'))
    expect(replay.taken()).toEqual([{ type: 'device-removed', key: gpu().key, graceful: false }])
    replay.pass(1000)
    expect(replay.taken()).toMatchObject([{ type: 'findings-observed', findings: [] }])
  })

  it('takes the GPUs of boxes behind it along, each once', () => {
    const second = { id: '11111111-2222-3333-ffff-ffffffffffff', name: 'Second box' }
    const behind = gpu({ key: 'second', enclosureId: second.id })
    const machine = { ...plugged, devices: [[gpu(), gpuPath] as const, [behind, `${gpuPath}9`] as const] }
    const replay = new Replay({
      ...machine,
      boxes: [
        [box, '0-1'],
        [second, '0-301'],
      ],
    })
    replay.take()
    replay.machine = { devices: machine.devices }
    replay.uevent(router('remove', { DEVPATH: '/devices/pci0000:00/0000:00:0d.2/domain0/0-0/0-1/0-301' }))
    replay.uevent(router('remove'))
    replay.pass(100)
    expect(replay.taken().map((event) => [event.type, 'key' in event ? event.key : ''])).toEqual([
      ['device-leaving', 'second'],
      ['enclosure-removed', ''],
      ['device-leaving', gpu().key],
      ['enclosure-removed', ''],
    ])
  })

  it('is believed over a look that still shows the box, until the kernel says that it is back', () => {
    const replay = new Replay(plugged)
    replay.take()
    replay.uevent(router('remove'))
    replay.uevent(pci('remove'))
    replay.pass(900)
    expect(replay.take()).toEqual(['0 device-leaving', '0 enclosure-removed', '0 device-removed'])
    replay.uevent(router('add'))
    replay.uevent(pci('add'))
    replay.pass(50)
    expect(replay.take()).toEqual(['915 enclosure-observed', '915 device-observed', '915 findings-observed'])
  })

  it('ends with the same key after a replug, whatever else changed (bus numbers, authorization, BAR)', () => {
    const replay = new Replay(plugged)
    replay.machine = {}
    replay.uevent(router('remove'))
    replay.uevent(pci('unbind'))
    replay.uevent(pci('remove'))
    replay.pass(30_000)
    replay.take()
    const again = gpuPath.replace('0000:04:00.0', '0000:2e:00.0')
    const device = gpu({ identity: { pciAddress: '0000:2e:00.0' } })
    replay.machine = { devices: [[device, again]], boxes: [[{ ...box, authorized: false }, '0-1']] }
    replay.uevent(router('add'))
    replay.uevent(pci('add', again))
    replay.pass(30_000)
    expect(replay.take()).toEqual(['30015 enclosure-observed', '30015 device-observed'])
  })
})

describe('without a Thunderbolt router', () => {
  const here = gpu({ key: 'a', enclosureId: undefined })
  const sibling = gpu({ key: 'b', enclosureId: undefined })
  const siblingPath = `${rootPort}/0000:02:00.0/0000:03:01.0/0000:08:00.0`
  const both = { devices: [[here, gpuPath] as const, [sibling, siblingPath] as const] }

  it('the display node going is the first sign, and an empty slot tells of the other GPUs at once', () => {
    const replay = new Replay(both)
    replay.take()
    replay.absent = ['a', 'b']
    replay.uevent(card('remove'))
    expect(replay.taken()).toMatchObject([
      { type: 'device-leaving', key: 'a' },
      { type: 'device-lost', key: 'a' },
      { type: 'device-leaving', key: 'b' },
    ])
    replay.pass(4000)
    replay.uevent(card('remove', siblingPath))
    expect(replay.taken()).toMatchObject([{ type: 'device-lost', key: 'b' }])
    replay.pass(4000)
    replay.machine = {}
    replay.uevent(pci('remove'))
    replay.uevent(pci('remove', siblingPath))
    replay.pass(20_000)
    expect(replay.taken()).toMatchObject([
      { type: 'device-removed', key: 'a', graceful: false },
      { type: 'device-removed', key: 'b', graceful: false },
    ])
  })

  it('a driver that is unbound for good leaves a GPU without driver', () => {
    const replay = new Replay(both)
    replay.take()
    const unbound = gpu({ key: 'a', enclosureId: undefined, kernelDriver: undefined, stage: 'present' })
    replay.machine = {
      devices: [
        [unbound, gpuPath],
        [sibling, siblingPath],
      ],
    }
    replay.uevent(card('remove'))
    replay.uevent(pci('unbind'))
    replay.pass(5000)
    expect(replay.take()).toEqual(['0 device-leaving', '500 device-observed'])
  })

  it('a driver that is bound again gives the GPU back as soon as it is ready', () => {
    const replay = new Replay(both)
    replay.take()
    const unbound = gpu({ key: 'a', enclosureId: undefined, kernelDriver: undefined, stage: 'present' })
    replay.machine = {
      devices: [
        [unbound, gpuPath],
        [sibling, siblingPath],
      ],
    }
    replay.uevent(card('remove'))
    replay.uevent(pci('unbind'))
    replay.pass(200)
    expect(replay.take()).toEqual(['0 device-leaving'])
    replay.machine = both
    replay.uevent(pci('bind'))
    replay.uevent(card('add'))
    replay.pass(5000)
    expect(replay.take()).toEqual(['215 device-observed'])
  })
})

describe('what looks like a plug and is none', () => {
  it('retimers that come and go without a box', () => {
    const replay = new Replay({})
    replay.take()
    for (let round = 0; round < 10; round++) {
      replay.uevent(retimer('add'))
      replay.pass(300)
      replay.uevent(retimer('remove'))
      replay.pass(300)
    }
    expect(replay.take()).toEqual([])
  })

  it('a link that is trained anew: leaving is told at once, called off, and never becomes a removal', () => {
    const replay = new Replay(plugged)
    replay.take()
    replay.machine = { devices: [[gpu({ enclosureId: undefined, stage: 'lost' }), gpuPath]] }
    replay.uevent(router('remove'))
    expect(replay.take()).toEqual(['0 device-leaving', '0 enclosure-removed'])
    replay.pass(1200)
    replay.machine = plugged
    replay.uevent(router('add'))
    replay.pass(30_000)
    const events = replay.taken()
    expect(events.map(({ type }) => type)).toEqual(['enclosure-observed', 'device-observed', 'findings-observed'])
    expect(events[2]).toMatchObject({ findings: [{ code: 'link-retrained', enclosureId: box.id }] })
    replay.pass(600_000)
    replay.send({ type: 'resync', reason: 'safety-rescan' })
    expect(replay.taken()).toMatchObject([{ snapshot: { findings: [] } }])
  })

  it('a box that flaps and never gets a PCI Express tunnel: no GPU, one finding', () => {
    const replay = new Replay({})
    replay.take()
    for (let round = 0; round < 4; round++) {
      replay.machine = { boxes: [[box, '0-1']] }
      replay.uevent(router('add'))
      replay.pass(4000)
      replay.machine = {}
      replay.uevent(router('remove'))
      replay.pass(4000)
    }
    const events = replay.taken()
    expect(events.filter(({ type }) => type.startsWith('device'))).toEqual([])
    expect(events.filter(({ type }) => type === 'enclosure-removed')).toHaveLength(4)
    expect(events.at(-1)).toMatchObject({
      type: 'findings-observed',
      findings: [{ code: 'enclosure-flapping', enclosureId: box.id }],
    })
  })

  it('the tunnel of the firmware, taken down when the Thunderbolt driver starts at boot', () => {
    const atBoot = gpu({ key: '10de:2b85', enclosureId: undefined })
    const replay = new Replay({ devices: [[atBoot, gpuPath]] }, { bootUntilMs: 60_000 })
    replay.take()
    replay.machine = {}
    replay.uevent(pci('remove'))
    expect(replay.taken()).toMatchObject([
      { type: 'device-leaving', reason: expect.stringContaining('firmware') as string },
      { type: 'device-removed', graceful: true },
    ])
    replay.pass(700)
    replay.machine = { boxes: [[{ ...box, authorized: false }, '0-1']] }
    replay.uevent(router('add'))
    replay.uevent(retimer('add'))
    replay.pass(1000)
    expect(replay.taken()).toMatchObject([
      { type: 'findings-observed', findings: [{ code: 'boot-tunnel-reset' }] },
      { type: 'enclosure-observed' },
    ])
  })

  it('the same removal long after boot is a surprise', () => {
    const replay = new Replay(
      { devices: [[gpu({ key: 'x', enclosureId: undefined }), gpuPath]] },
      { bootUntilMs: 60_000 },
    )
    replay.pass(61_000)
    replay.take()
    replay.machine = {}
    replay.uevent(pci('remove'))
    expect(replay.taken()).toEqual([{ type: 'device-removed', key: 'x', graceful: false }])
  })

  it('events that somebody wrote by hand, also when they say remove', () => {
    const replay = new Replay(plugged)
    replay.take()
    const { looks } = replay
    replay.uevent(pci('remove', gpuPath, { SYNTH_UUID: '0' }))
    replay.uevent(router('remove', { SYNTH_UUID: 'fe4d7c9d-b8c6-4a70-9ef1-3d8a58d18eed' }))
    replay.pass(1000)
    expect(replay.take()).toEqual([])
    expect(replay.looks).toBe(looks)
  })

  it('a GPU whose box becomes known: it gets its lasting key before the other one goes', () => {
    const nameless = gpu({ key: '10de:2b85', enclosureId: undefined })
    const replay = new Replay({ devices: [[nameless, gpuPath]] })
    replay.take()
    replay.machine = plugged
    replay.uevent(router('add'))
    replay.pass(100)
    expect(replay.taken()).toMatchObject([
      { type: 'enclosure-observed' },
      { type: 'device-observed', device: { key: gpu().key } },
      { type: 'device-removed', key: '10de:2b85', graceful: true },
    ])
  })
})

describe('announced departures', () => {
  it('a removal while the box stays connected is graceful', () => {
    const replay = new Replay(plugged)
    replay.take()
    replay.machine = { boxes: [[box, '0-1']] }
    replay.uevent(card('remove'))
    replay.uevent(pci('unbind'))
    replay.uevent(pci('remove'))
    expect(replay.taken()).toMatchObject([{ type: 'device-leaving' }, { type: 'device-removed', graceful: true }])
  })

  it('a safe removal is graceful without a box, too, and only once', () => {
    const machine = { devices: [[gpu({ key: 'x', enclosureId: undefined }), gpuPath] as const] }
    const replay = new Replay(machine)
    replay.send({ type: 'removal-expected', key: 'x', expected: true })
    replay.machine = {}
    replay.uevent(pci('remove'))
    expect(replay.taken().at(-1)).toMatchObject({ type: 'device-removed', graceful: true })
    replay.machine = machine
    replay.uevent(pci('add'))
    replay.pass(100)
    replay.machine = {}
    replay.uevent(pci('remove'))
    expect(replay.taken().at(-1)).toMatchObject({ type: 'device-removed', graceful: false })
  })

  it('a safe removal that failed leaves a later departure a surprise', () => {
    const replay = new Replay({ devices: [[gpu({ key: 'x', enclosureId: undefined }), gpuPath]] })
    replay.send({ type: 'removal-expected', key: 'x', expected: true })
    replay.send({ type: 'removal-expected', key: 'x', expected: false })
    replay.machine = {}
    replay.uevent(pci('remove'))
    expect(replay.taken().at(-1)).toMatchObject({ type: 'device-removed', graceful: false })
  })

  it('a tunnel that is taken down is the first sign; one that comes back calls it off', () => {
    const tunnel = (what: string) => ({
      ACTION: 'change',
      DEVPATH: '/devices/pci0000:00/0000:00:0d.2/domain0',
      SUBSYSTEM: 'thunderbolt',
      DEVTYPE: 'thunderbolt_domain',
      TUNNEL_EVENT: what,
      TUNNEL_DETAILS: '0:5 <-> 1:9 (PCI)',
    })
    const replay = new Replay(plugged)
    replay.take()
    replay.uevent({ ...tunnel('deactivated'), TUNNEL_DETAILS: '0:6 <-> 1:10 (DP)' })
    replay.pass(100)
    expect(replay.take()).toEqual([])
    replay.uevent(tunnel('deactivated'))
    replay.pass(1000)
    expect(replay.take()).toEqual(['100 device-leaving'])
    replay.uevent(tunnel('activated'))
    replay.pass(30_000)
    expect(replay.take()).toEqual(['1115 device-observed'])
  })
})

describe('a tunnel to a box behind another box', () => {
  it('takes nothing from the first box when it goes', () => {
    const second = { id: uuid(2) }
    const behind = gpu({ key: 'behind', enclosureId: second.id })
    const replay = new Replay({
      devices: [...(plugged.devices ?? []), [behind, `${gpuPath}/behind`]],
      boxes: [...(plugged.boxes ?? []), [second, '0-301']],
    })
    replay.take()
    replay.uevent({
      ACTION: 'change',
      DEVPATH: '/devices/pci0000:00/0000:00:0d.2/domain0',
      SUBSYSTEM: 'thunderbolt',
      TUNNEL_EVENT: 'deactivated',
      TUNNEL_DETAILS: '1:3 <-> 301:9 (PCI)',
    })
    expect(replay.taken()).toMatchObject([{ type: 'device-leaving', key: 'behind' }])
  })
})

describe('a device that the kernel gives up', () => {
  it.each([
    ['rebind', true],
    ['bus-reset', true],
    ['rebind,bus-reset', true],
    ['unknown', true],
    ['vendor-specific', true],
    ['none', false],
  ])('WEDGED=%s', (method, wedged) => {
    const replay = new Replay(plugged)
    replay.take()
    replay.uevent(card('change', gpuPath, { WEDGED: method }))
    replay.pass(1000)
    expect(replay.taken().map(({ type }) => type)).toEqual(wedged ? ['device-wedged', 'findings-observed'] : [])
  })

  it('comes back when its driver was unbound and bound again', () => {
    const replay = new Replay(plugged)
    replay.uevent(card('change', gpuPath, { WEDGED: 'rebind' }))
    replay.take()
    replay.machine = { ...plugged, devices: [[gpu({ kernelDriver: undefined, stage: 'present' }), gpuPath]] }
    replay.uevent(card('remove'))
    replay.uevent(pci('unbind'))
    replay.pass(2000)
    expect(replay.take()).toEqual(['50 findings-observed'])
    replay.machine = plugged
    replay.uevent(pci('bind'))
    replay.uevent(card('add'))
    replay.pass(100)
    expect(replay.taken()).toMatchObject([
      { type: 'device-observed', device: { stage: 'ready' } },
      { type: 'findings-observed', findings: [] },
    ])
  })

  it('not after a failed PCI Express recovery, which becomes a finding', () => {
    const replay = new Replay(plugged)
    replay.take()
    replay.uevent(pci('change', gpuPath, { ERROR_EVENT: 'BEGIN_RECOVERY', DEVICE_ONLINE: '0' }))
    replay.pass(100)
    expect(replay.take()).toEqual([])
    replay.uevent(pci('change', gpuPath, { ERROR_EVENT: 'FAILED_RECOVERY', DEVICE_ONLINE: '0' }))
    replay.pass(100)
    expect(replay.taken()).toMatchObject([
      { type: 'findings-observed', findings: [{ code: 'pcie-recovery-failed', deviceId: gpu().key }] },
    ])
  })
})

it('a GPU that a look finds dead is lost, once, and does not announce its leaving afterwards', () => {
  const replay = new Replay(plugged)
  replay.take()
  replay.machine = { ...plugged, devices: [[gpu({ stage: 'lost' }), gpuPath]] }
  for (let round = 0; round < 3; round++) {
    replay.uevent(pci('change'))
    replay.pass(100)
  }
  replay.uevent(card('remove'))
  replay.pass(100)
  expect(replay.take()).toEqual(['50 device-lost'])
  replay.machine = plugged
  replay.uevent(pci('change'))
  replay.pass(100)
  expect(replay.take()).toEqual(['415 device-observed'])
})

describe('lost messages', () => {
  it('an overflow leads to a look soon and to exactly one resync when the storm is over', () => {
    const replay = new Replay(plugged)
    replay.pass(1000)
    replay.take()
    replay.machine = { boxes: [[box, '0-1']] }
    for (let round = 0; round < 100; round++) {
      if (round % 10 === 0) replay.source({ type: 'overflow' })
      replay.uevent({ ACTION: 'change', DEVPATH: '/devices/virtual/mem/null', SUBSYSTEM: 'mem' })
      replay.pass(20)
    }
    replay.pass(5000)
    expect(replay.take()).toEqual(['1015 device-removed', '3230 resync'])
  })

  it('a gap in the numbers is a loss once the grace period is over', () => {
    const replay = new Replay(plugged)
    replay.uevent({ ...retimer('add'), SEQNUM: '2000' })
    replay.pass(1000)
    replay.take()
    replay.uevent({ ...retimer('add'), SEQNUM: '2002' })
    replay.pass(249)
    expect(replay.take()).toEqual([])
    replay.pass(2000)
    expect(replay.taken()).toMatchObject([{ type: 'resync', reason: 'overflow' }])
    replay.pass(60_000)
    expect(replay.take()).toEqual([])
  })

  it('numbers that arrive swapped are no loss', () => {
    const replay = new Replay(plugged)
    for (const seqnum of ['2000', '2002', '2004', '2001', '2003', '2005']) {
      replay.uevent({ ...retimer('add'), SEQNUM: seqnum })
    }
    replay.take()
    replay.pass(5000)
    expect(replay.take()).toEqual([])
  })

  it('an event that comes twice counts once', () => {
    const replay = new Replay(plugged)
    replay.uevent({ ...router('remove'), SEQNUM: '2000' })
    replay.machine = plugged
    replay.uevent({ ...router('add'), SEQNUM: '2001' })
    replay.pass(5000)
    replay.take()
    replay.uevent({ ...router('remove'), SEQNUM: '2000' })
    expect(replay.take()).toEqual([])
  })
})

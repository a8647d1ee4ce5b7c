import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { HealthSample, PlanOutcome, SystemPlan } from '@egpu/core'
import type { DriverEvent, DriverSnapshot } from '@egpu/core/driver'
import { runCycles } from './cycles.ts'
import { GuestWatch, untilListed } from './guest-watch.ts'
import { bootMachine, ports } from './machine.ts'
import type { Machine } from './machine.ts'
import { missingTools } from './tools.ts'

const cycles = 100

/** A real kernel without udevd, with cards that really come and go. One machine for all, empty between two tests. */
describe.skipIf(missingTools !== undefined)(`a live machine (${missingTools ?? 'QEMU'})`, () => {
  let machine: Machine
  let watch: GuestWatch
  beforeAll(async () => {
    machine = await bootMachine({ iommu: false })
    watch = await GuestWatch.start(machine.vm, 'main')
  }, 600_000)
  afterEach(async () => {
    await machine.empty()
    await untilListed(machine.vm, 'only the built-in GPU', ({ devices }) => devices.length === 1)
    // What the departure had to say is not the next test's.
    await sleep(1000)
    watch.clear()
  })
  afterAll(() => machine?.close())

  const removals = (): DriverEvent[] =>
    watch.seen.flatMap(({ event }) => (event.type === 'device-removed' ? [event] : []))

  it('has one GPU, built in, and is heard straight from the kernel without udevd', async () => {
    expect(watch.source.kind).toBe('kernel')
    expect(await machine.vm.sh('pidof udevd systemd-udevd || true')).toBe('')
    const { devices } = watch.first.snapshot
    expect(devices).toMatchObject([{ stage: 'ready', kernelDriver: 'bochs-drm', verdict: { conclusion: 'internal' } }])
  })

  it('tells the same card external behind an external facing port and internal behind any other', async () => {
    await machine.plugCard(ports.external)
    await watch.untilReady()
    await machine.plugCard(ports.internal)
    const { devices } = await untilListed(machine.vm, 'three GPUs', (one) => one.devices.length === 3)
    expect(devices.map(({ verdict }) => verdict?.conclusion)).toEqual(['internal', 'external', 'internal'])
  })

  it('tells of a pulled cable in order, and knows the card again', async () => {
    await machine.plugCard(ports.external)
    const key = await watch.untilReady()
    watch.clear()
    await machine.yank(ports.external)
    await watch.until('removal', ({ type }) => type === 'device-removed')
    expect(watch.partings()).toEqual([`device-leaving ${key}`, `device-lost ${key}`, `device-removed ${key}`])
    expect(removals()).toEqual([{ type: 'device-removed', key, graceful: false }])
    watch.clear()
    await machine.plugCard(ports.external)
    expect(await watch.untilReady()).toBe(key)
  })

  it('warns of every GPU in a pulled box at once, long before the kernel takes the last one away', async () => {
    await machine.plugBox(ports.external)
    const { devices } = await untilListed(machine.vm, 'both GPUs of the box', (one) => isBoxReady(one))
    expect(devices.filter(({ verdict }) => verdict?.conclusion === 'external')).toHaveLength(2)
    watch.clear()
    await machine.yank(ports.external)
    await watch.until('second removal', () => removals().length === 2)
    // The kernel says nothing of one of them for seconds; the empty slot does.
    const first = new Map<string, number>()
    for (const { atMs, event } of watch.seen) {
      const bad = event.type === 'device-leaving' || event.type === 'device-lost'
      if (bad && !first.has(event.key)) first.set(event.key, atMs)
    }
    const removedAt = watch.seen.flatMap(({ atMs, event }) => (event.type === 'device-removed' ? [atMs] : []))
    expect(first.size).toBe(2)
    expect(Math.max(...first.values())).toBeLessThan(Math.min(...removedAt))
  })

  it('counts PCI Express errors along the path', async () => {
    await machine.plugCard(ports.external)
    const key = await watch.untilReady()
    const before = await machine.vm.call<HealthSample>('sample', key)
    await machine.injectError(ports.external, 'COMP_TIME')
    await expect
      .poll(async () => (await machine.vm.call<HealthSample>('sample', key)).nonfatalErrors, { timeout: 30_000 })
      .toBe((before.nonfatalErrors ?? 0) + 1)
    // The card's driver has no part in the recovery, so the kernel says that it failed.
    await watch.until('finding', (event) => {
      return event.type === 'findings-observed' && event.findings.some(({ code }) => code === 'pcie-recovery-failed')
    })
  })

  it('removes a card safely: refuses while a process holds it, names it, and then lets go', async () => {
    await machine.plugCard(ports.external)
    const key = await watch.untilReady()
    const card = await machine.vm.sh('ls /sys/bus/pci/devices/0000:01:00.0/drm | grep card')
    await machine.vm.sh(`chmod 666 /dev/dri/${card}; mount -t debugfs none /sys/kernel/debug || true`)
    const pid = await machine.vm.call<number>('hold', `/dev/dri/${card}`, 1000)
    const plan = await machine.vm.call<SystemPlan>('planRemoval', key)
    // Who opens a card first is its master.
    const holds = `/dev/dri/${card} (DRM master)`
    expect(plan.holders).toEqual([{ pid, name: 'sleep', user: 'maker', holds }])
    expect(await machine.vm.call<PlanOutcome>('runRemoval', key)).toMatchObject({ done: false, holders: [{ pid }] })
    expect((await machine.vm.call<DriverSnapshot>('list')).devices.some((one) => one.key === key)).toBe(true)
    await machine.vm.sh(`kill -9 ${pid}`)
    watch.clear()
    const holders = async (): Promise<number> => (await machine.vm.call<SystemPlan>('planRemoval', key)).holders.length
    await expect.poll(holders, { timeout: 30_000 }).toBe(0)
    expect(await machine.vm.call<PlanOutcome>('runRemoval', key)).toEqual({ done: true })
    await watch.until('removal', ({ type }) => type === 'device-removed')
    expect(removals()).toEqual([{ type: 'device-removed', key, graceful: true }])
    expect(await machine.vm.sh('cat /sys/bus/pci/slots/1/power')).toBe('0')
    await sleep(1500)
    watch.clear()
    await machine.plugCard(ports.external)
    expect(await watch.untilReady()).toBe(key)
  })

  it('does not take who still has the node of a card that was pulled for a holder of the next one', async () => {
    await machine.plugCard(ports.external)
    const key = await watch.untilReady()
    const cardOf = (): Promise<string> => machine.vm.sh('ls /sys/bus/pci/devices/0000:01:00.0/drm | grep card')
    const first = await cardOf()
    const pid = await machine.vm.call<number>('hold', `/dev/dri/${first}`, 0)
    watch.clear()
    await machine.yank(ports.external)
    await watch.until('removal', ({ type }) => type === 'device-removed')
    expect(watch.partings()).toEqual([`device-leaving ${key}`, `device-lost ${key}`, `device-removed ${key}`])
    expect(await machine.vm.sh(`readlink /proc/${pid}/fd/3`)).toMatch(/^\/dev\/dri\/card\d+ \(deleted\)$/)
    watch.clear()
    await machine.plugCard(ports.external)
    expect(await watch.untilReady()).toBe(key)
    // The kernel keeps the number of the old node as long as somebody has it.
    expect(await cardOf()).not.toBe(first)
    expect((await machine.vm.call<SystemPlan>('planRemoval', key)).holders).toEqual([])
    await machine.vm.sh(`kill -9 ${pid}`)
  })

  it('finds boxes that came up as plain USB devices, on a real USB stack', async () => {
    await machine.vm.sh('modprobe dummy_hcd is_super_speed=1; modprobe libcomposite; modprobe usb_f_acm')
    const plug = (name: string, vendor: string, product: string, deviceClass: string): Promise<string> =>
      machine.vm.sh(
        [
          `mkdir -p /sys/kernel/config/usb_gadget/${name} && cd /sys/kernel/config/usb_gadget/${name}`,
          `echo ${vendor} > idVendor; echo ${product} > idProduct; echo ${deviceClass} > bDeviceClass`,
          'mkdir -p strings/0x409 configs/c.1/strings/0x409 functions/acm.0',
          'echo Box > strings/0x409/product; ln -sf functions/acm.0 configs/c.1/acm.0',
          'ls /sys/class/udc | head -1 > UDC',
        ].join('\n'),
      )
    const codes = ({ findings }: DriverSnapshot): string[] => findings.map(({ code }) => code)
    await plug('bridge', '0x174c', '0x2463', '0x00')
    await untilListed(machine.vm, 'the USB-only box', (one) => codes(one).includes('enclosure-usb-only'))
    await watch.until('finding', (event) => {
      const findings = event.type === 'resync' ? event.snapshot.findings : []
      const told = event.type === 'findings-observed' ? event.findings : findings
      return told.some(({ code }) => code === 'enclosure-usb-only')
    })
    await machine.vm.sh('echo > /sys/kernel/config/usb_gadget/bridge/UDC')
    await plug('billboard', '0x2109', '0x0102', '0x11')
    await untilListed(machine.vm, 'the billboard', (one) => codes(one).includes('alternate-mode-failed'))
    await machine.vm.sh('echo > /sys/kernel/config/usb_gadget/billboard/UDC')
    await untilListed(machine.vm, 'no findings', (one) => !codes(one).some((code) => /usb-only|alternate/.test(code)))
    watch.clear()
  })

  it('needs one look at everything after 10,000 events in a burst that its tiny buffer lost, and is right', async () => {
    const tiny = await GuestWatch.start(machine.vm, 'tiny', { receiveBufferBytes: 2304 })
    const burst = machine.vm.call('burst', 10_000)
    await sleep(500)
    await machine.plugCard(ports.external)
    await burst
    await tiny.until('resync', ({ type }) => type === 'resync')
    await untilListed(machine.vm, 'the card', (one) =>
      one.devices.some(({ identity }) => identity.pciAddress === '0000:01:00.0'),
    )
    await sleep(3000)
    expect(tiny.seen.filter(({ event }) => event.type === 'resync')).toHaveLength(1)
    const present = new Set<string>()
    for (const { event } of [{ event: tiny.first as DriverEvent }, ...tiny.seen]) {
      if (event.type === 'resync') {
        present.clear()
        for (const { key } of event.snapshot.devices) present.add(key)
      }
      if (event.type === 'device-observed') present.add(event.device.key)
      if (event.type === 'device-removed') present.delete(event.key)
    }
    const listed = (await machine.vm.call<DriverSnapshot>('list')).devices.map(({ key }) => key)
    expect([...present].sort()).toEqual(listed.sort())
    await tiny.stop()
  })

  it('keeps every rule of the driver contract', async () => {
    let hands = Promise.resolve()
    const off = machine.vm.onEvent((message) => {
      if (message.event !== 'hand') return
      // One after the other, also when both are asked for at once.
      hands = hands.then(async () => {
        const there = await machine.isPlugged(ports.external)
        if (message['hand'] === 'plug' && !there) await machine.plugCard(ports.external)
        if (message['hand'] === 'unplug' && there) await machine.yank(ports.external)
        await machine.vm.call('handDone', message['id'])
      })
    })
    const finished = new Promise<readonly { name: string; outcome: string; reason?: string }[]>((resolve) => {
      const end = machine.vm.onEvent((message) => {
        if (message.event !== 'compliance') return
        end()
        resolve(message['results'] as never)
      })
    })
    await machine.vm.call('compliance')
    const results = await finished
    off()
    await hands
    expect(results.filter(({ outcome }) => outcome === 'failed')).toEqual([])
    expect(results.filter(({ outcome }) => outcome === 'passed').length).toBeGreaterThan(30)
  })

  it(`misses, repeats and reorders nothing in ${cycles} plugs and pulls, in steady memory`, async () => {
    const report = await runCycles(machine, watch, cycles)
    expect(report).toMatchObject({ cycles, missed: 0, repeated: 0, reordered: 0, firstFault: undefined })
    expect(report.heapGrowth).toBeLessThan(1.1)
    expect(watch.crashes).toEqual([])
  })
})

function isBoxReady({ devices }: DriverSnapshot): boolean {
  return devices.filter(({ stage, verdict }) => stage === 'ready' && verdict?.conclusion === 'external').length === 2
}

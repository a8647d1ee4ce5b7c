import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { PassthroughPlan, PlanOutcome } from '@egpu/core'
import type { DriverSnapshot } from '@egpu/core/driver'
import { GuestWatch, untilListed } from './guest-watch.ts'
import { bootMachine, ports } from './machine.ts'
import type { Machine } from './machine.ts'
import { missingTools } from './tools.ts'

/** A real kernel with an emulated IOMMU: its groups, vfio-pci, and the way back. */
describe.skipIf(missingTools !== undefined)(`handing a card to a guest (${missingTools ?? 'QEMU'})`, () => {
  let machine: Machine
  let watch: GuestWatch
  beforeAll(async () => {
    machine = await bootMachine({ iommu: true })
    watch = await GuestWatch.start(machine.vm, 'main')
  }, 600_000)
  // Not after the last test: what it leaves plugged in is among the things that QEMU does not survive being pulled.
  beforeEach(async () => {
    await machine.empty()
    await sleep(1000)
    watch.clear()
  })
  afterAll(() => machine?.close())

  const drivers = (address: string): Promise<string> =>
    machine.vm.sh(
      `for f in 0 1; do basename $(readlink /sys/bus/pci/devices/${address}.$f/driver) 2>/dev/null || echo none; done`,
    )

  it('binds GPU and sound to vfio-pci, so that the group is viable, and gives both back to their drivers', async () => {
    await machine.plugCard(ports.external)
    const key = await watch.untilReady()
    const before = await drivers('0000:01:00')
    expect(before).toBe('bochs-drm\nsnd_hda_intel')
    const plan = await machine.vm.call<PassthroughPlan>('planPassthrough', key)
    expect(plan.refusals).toEqual([])
    expect(plan.functions).toEqual(['0000:01:00.0', '0000:01:00.1'])
    expect(plan.steps[0]?.command).toBe('modprobe vfio-pci')

    watch.clear()
    expect(await machine.vm.call<PlanOutcome>('bindPassthrough', key)).toEqual({ done: true })
    expect(await drivers('0000:01:00')).toBe('vfio-pci\nvfio-pci')
    expect(await machine.vm.call('isViable', plan.iommuGroup)).toBe(true)
    await watch.until(
      'GPU with vfio-pci',
      (event) => event.type === 'device-observed' && event.device.kernelDriver === 'vfio-pci',
    )
    // What the kernel still had to say of the plugging may come first: the card with the driver it was plugged with.
    const parting = watch.seen.find(
      ({ event }) => event.type !== 'device-observed' || event.device.kernelDriver !== 'bochs-drm',
    )
    expect(parting?.event).toMatchObject({ type: 'device-leaving', key })

    // A guest that has the group open keeps it.
    const pid = await machine.vm.call<number>('hold', `/dev/vfio/${plan.iommuGroup}`, 0)
    expect(await machine.vm.call<PlanOutcome>('releasePassthrough', key)).toMatchObject({
      done: false,
      holders: [{ pid }],
    })
    await machine.vm.sh(`kill -9 ${pid}`)

    watch.clear()
    await sleep(2000)
    expect(await machine.vm.call<PlanOutcome>('releasePassthrough', key)).toEqual({ done: true })
    expect(await drivers('0000:01:00')).toBe(before)
    expect(await watch.untilReady()).toBe(key)
  })

  it('loses a card that a guest has, and says so', async () => {
    await machine.plugCard(ports.external)
    const key = await watch.untilReady()
    expect(await machine.vm.call<PlanOutcome>('bindPassthrough', key)).toEqual({ done: true })
    await untilListed(machine.vm, 'vfio-pci', ({ devices }) =>
      devices.some(({ kernelDriver }) => kernelDriver === 'vfio-pci'),
    )
    watch.clear()
    await machine.yank(ports.external)
    await watch.until('removal', ({ type }) => type === 'device-removed')
    expect(watch.list()).toContain(`device-removed ${key}`)
  })

  it('refuses a card that shares its group with somebody else’s device, and the display the machine boots with', async () => {
    await machine.plugShared(ports.internal)
    const key = await watch.untilReady()
    const shared = await machine.vm.call<PassthroughPlan>('planPassthrough', key)
    expect(shared.refusals).toEqual([expect.stringMatching(/not part of the card.*:02\.0/)])
    const { devices } = await machine.vm.call<DriverSnapshot>('list')
    const boot = devices.find(({ identity }) => identity.pciAddress === '0000:00:01.0')
    const refused = await machine.vm.call<PassthroughPlan>('planPassthrough', boot?.key)
    expect(refused.refusals).toEqual([expect.stringContaining('boot_vga')])
  })
})

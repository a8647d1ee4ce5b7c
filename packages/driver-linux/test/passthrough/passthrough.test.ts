import { existsSync, mkdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { linuxPassthrough } from '../../src/passthrough/index.ts'
import { aorusKey, aorusLost, aorusPortB } from '../machines/cases/aorus.ts'
import { FakeMachine } from '../removal/fake-machine.ts'

const gpu = '0000:2e:00.0'
const sound = '0000:2e:00.1'

/** The box on port B, its card alone in an IOMMU group with the bridges above it. */
function grouped(...others: readonly string[]): FakeMachine {
  const machine = new FakeMachine(aorusPortB)
  machine.iommuGroup(17, ['0000:2d:00.0', gpu, sound, ...others])
  mkdirSync(join(machine.sysfsRoot, 'bus/pci/drivers/vfio-pci'), { recursive: true })
  return machine
}

function passthroughOf({ sysfsRoot, procRoot, survey, execute }: FakeMachine): ReturnType<typeof linuxPassthrough> {
  return linuxPassthrough({ sysfsRoot, procRoot, survey, execute })
}

function driverOf(machine: FakeMachine, address: string): string | undefined {
  const link = join(machine.sysfsRoot, 'bus/pci/devices', address, 'driver')
  return existsSync(join(machine.sysfsRoot, 'bus/pci/devices', address)) ? tryLink(link) : undefined
}

function tryLink(path: string): string | undefined {
  try {
    return basename(readlinkSync(path))
  } catch {
    return undefined
  }
}

describe('the plan', () => {
  it('binds sound and GPU through driver_override, and writes what QEMU and libvirt need', async () => {
    using machine = grouped()
    const plan = await passthroughOf(machine).plan(aorusKey)
    expect(plan.refusals).toEqual([])
    expect(plan).toMatchObject({ functions: [gpu, sound], iommuGroup: 17 })
    expect(plan.steps.map(({ id }) => id)).toEqual([
      `unbind-${sound}`,
      `override-${sound}`,
      `probe-${sound}`,
      `unbind-${gpu}`,
      `override-${gpu}`,
      `probe-${gpu}`,
    ])
    expect(plan.qemuArguments).toEqual([
      '-device',
      'pcie-root-port,id=egpu,chassis=40,slot=40',
      '-device',
      `vfio-pci,host=${gpu},bus=egpu,addr=00.0,multifunction=on`,
      '-device',
      `vfio-pci,host=${sound},bus=egpu,addr=00.1`,
    ])
    expect(plan.libvirtXml).toContain("<address domain='0x0000' bus='0x2e' slot='0x00' function='0x1'/>")
    expect(machine.done).toEqual([])
  })

  it('says when the card cannot be reset', async () => {
    using machine = grouped()
    expect((await passthroughOf(machine).plan(aorusKey)).notes.join()).toContain('no way to reset')
    writeFileSync(join(machine.sysfsRoot, 'bus/pci/devices', gpu, 'reset_method'), 'bus\n')
    expect((await passthroughOf(machine).plan(aorusKey)).notes.join()).toContain('reset by bus')
    writeFileSync(join(machine.sysfsRoot, 'bus/pci/devices', gpu, 'reset_method'), 'flr bus\n')
    expect((await passthroughOf(machine).plan(aorusKey)).notes.join()).not.toContain('reset')
  })

  it('refuses without an IOMMU', async () => {
    using machine = new FakeMachine(aorusPortB)
    expect((await passthroughOf(machine).plan(aorusKey)).refusals).toEqual([expect.stringContaining('no IOMMU')])
  })

  it('refuses a group with somebody else’s device, and names it', async () => {
    using machine = grouped('0000:00:14.0')
    expect((await passthroughOf(machine).plan(aorusKey)).refusals).toEqual([expect.stringContaining('0000:00:14.0')])
  })

  it('refuses the display the machine boots with', async () => {
    using machine = grouped()
    writeFileSync(join(machine.sysfsRoot, 'bus/pci/devices', gpu, 'boot_vga'), '1\n')
    expect((await passthroughOf(machine).plan(aorusKey)).refusals).toEqual([expect.stringContaining('boot_vga')])
  })

  it('refuses a dead GPU', async () => {
    using machine = new FakeMachine(aorusLost)
    machine.iommuGroup(17, ['0000:04:00.0', '0000:04:00.1'])
    expect((await passthroughOf(machine).plan(aorusKey)).refusals).toEqual([expect.stringContaining('dead')])
  })
})

describe('binding and giving back', () => {
  it('never changes a recorded machine', async () => {
    using machine = grouped()
    const { sysfsRoot, procRoot, survey } = machine
    const passthrough = linuxPassthrough({ sysfsRoot, procRoot, survey })
    const reason = 'this is a recorded machine, which is never changed'
    const plan = await passthrough.plan(aorusKey)
    expect(plan.refusals).toEqual([reason])
    expect(await passthrough.bind(plan)).toMatchObject({ done: false, reason })
    expect(await passthrough.release(aorusKey)).toMatchObject({ done: false, reason })
    expect(driverOf(machine, gpu)).toBe('nvidia')
  })

  it('hands both functions over and gives each back to the driver it had', async () => {
    using machine = grouped()
    const before = [driverOf(machine, gpu), driverOf(machine, sound)]
    expect(before[0]).toBe('nvidia')
    const passthrough = passthroughOf(machine)
    expect(await passthrough.bind(await passthrough.plan(aorusKey))).toEqual({ done: true })
    expect([driverOf(machine, gpu), driverOf(machine, sound)]).toEqual(['vfio-pci', 'vfio-pci'])
    expect(await passthrough.release(aorusKey)).toEqual({ done: true })
    expect([driverOf(machine, gpu), driverOf(machine, sound)]).toEqual(before)
  })

  it('takes everything back when the GPU does not bind', async () => {
    using machine = grouped()
    machine.broken.set(`/bus/pci/devices/${gpu}/driver_override`, 'Invalid argument')
    const passthrough = passthroughOf(machine)
    expect(await passthrough.bind(await passthrough.plan(aorusKey))).toMatchObject({
      done: false,
      failedStep: `override-${gpu}`,
      reason: 'Invalid argument',
    })
    expect([driverOf(machine, gpu), driverOf(machine, sound)]).toEqual(['nvidia', 'snd_hda_intel'])
  })

  it('refuses while a process uses the GPU, or a guest still has it', async () => {
    using machine = grouped()
    const passthrough = passthroughOf(machine)
    const plan = await passthrough.plan(aorusKey)
    machine.process(5, 'python3', 0, ['/dev/nvidia0'])
    expect(await passthrough.bind(plan)).toMatchObject({ done: false, holders: [{ pid: 5 }] })
    machine.end(5)
    expect(await passthrough.bind(plan)).toEqual({ done: true })
    machine.process(6, 'qemu-system-x86', 0, ['/dev/vfio/17'])
    expect(await passthrough.release(aorusKey)).toMatchObject({
      done: false,
      reason: expect.stringContaining('qemu-system-x86 (6)') as string,
    })
    expect(driverOf(machine, gpu)).toBe('vfio-pci')
  })
})

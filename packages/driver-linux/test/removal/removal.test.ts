import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { executeInChild } from '../../src/removal/execute.ts'
import { linuxSafeRemoval } from '../../src/removal/index.ts'
import { framework13 } from '../machines/cases/amd.ts'
import { aorusKey, aorusLost, aorusPortB } from '../machines/cases/aorus.ts'
import { daisyChain } from '../machines/cases/chains.ts'
import { thinkpadT480 } from '../machines/cases/discrete.ts'
import type { Machine } from '../machines/machine.ts'
import { FakeMachine } from './fake-machine.ts'

const gpu = '0000:2e:00.0'
const sound = '0000:2e:00.1'

/** Lets the routers of a machine be deauthorized, as the domains of most machines do. */
function deauthorizable(machine: FakeMachine, domain: number): void {
  const path = join(machine.sysfsRoot, 'bus/thunderbolt/devices', `domain${domain}`, 'deauthorization')
  writeFileSync(path, '1\n')
}

async function aorus(): Promise<{ machine: FakeMachine; removal: ReturnType<typeof linuxSafeRemoval> }> {
  const machine = new FakeMachine(aorusPortB)
  deauthorizable(machine, 1)
  machine.node(gpu, 'drm/card1', 'dri/card1', '226:1')
  machine.node(gpu, 'drm/renderD129', 'dri/renderD129', '226:129')
  machine.node(sound, 'sound/card2/controlC2', 'snd/controlC2', '116:9')
  machine.node(sound, 'sound/card2/pcmC2D3p', 'snd/pcmC2D3p', '116:7')
  return { machine, removal: linuxSafeRemoval(machine) }
}

describe('the plan', () => {
  it('unloads NVIDIA’s driver, takes sound before the GPU, and closes the tunnel last', async () => {
    const { machine, removal } = await aorus()
    using _ = machine
    const { steps, holders, refusals } = await removal.plan(aorusKey)
    expect(refusals).toEqual([])
    expect(holders).toEqual([])
    expect(steps.map(({ command }) => command?.replace(machine.sysfsRoot, '/sys'))).toEqual([
      'modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia',
      `echo 1 > /sys/bus/pci/devices/${sound}/remove`,
      `echo 1 > /sys/bus/pci/devices/${gpu}/remove`,
      'echo 0 > /sys/bus/thunderbolt/devices/1-1/authorized',
    ])
    expect(steps.every(({ undo }) => undo !== undefined)).toBe(true)
    expect(machine.done).toEqual([])
  })

  it('names everybody who has a node open or mapped, whatever the node is called, and nobody else', async () => {
    const { machine, removal } = await aorus()
    using _ = machine
    machine.process(100, 'gnome-shell', 0, ['/dev/dri/card0', '/dev/dri/card1', 'socket:[1]'])
    machine.process(101, 'python3', 4_294_900_000, ['/dev/null', '/dev/nvidia0', '/dev/nvidiactl'])
    machine.process(102, 'mapped', 0, [], '7f00-7f01 rw-s 00000000 00:06 12 /dev/dri/renderD129\n')
    machine.process(103, 'pipewire', 0, ['/dev/snd/controlC2'])
    machine.process(104, 'mpv', 0, ['/dev/snd/pcmC2D3p'])
    machine.process(105, 'innocent', 0, ['/dev/dri/card0', '/dev/dri/card10', '/dev/zero'])
    const { holders } = await removal.plan(aorusKey)
    expect(holders).toEqual([
      { pid: 100, name: 'gnome-shell', user: 'root', holds: '/dev/dri/card1' },
      { pid: 101, name: 'python3', user: '4294900000', holds: '/dev/nvidia0' },
      { pid: 102, name: 'mapped', user: 'root', holds: '/dev/dri/renderD129' },
      { pid: 104, name: 'mpv', user: 'root', holds: '/dev/snd/pcmC2D3p' },
    ])
  })

  it('tells who drives the screens of the card from those who only draw with it', async () => {
    const { machine, removal } = await aorus()
    using _ = machine
    machine.process(100, 'gnome shell', 0, ['/dev/dri/card1', '/dev/dri/renderD129'])
    machine.process(101, 'Xwayland', 0, ['/dev/dri/card1'])
    const clients = join(machine.sysfsRoot, 'kernel/debug/dri')
    mkdirSync(join(clients, '1'), { recursive: true })
    writeFileSync(
      join(clients, '1/clients'),
      [
        '             command  tgid dev master a   uid      magic',
        '         gnome shell   100   1   y    y     0          0',
        '            Xwayland   101   1   n    y     0          1',
        '',
      ].join('\n'),
    )
    // Another card's master is none of this one.
    mkdirSync(join(clients, '0'))
    writeFileSync(join(clients, '0/clients'), '            Xwayland   101   0   y    y     0          1\n')
    const { holders } = await removal.plan(aorusKey)
    expect(holders.map(({ pid, holds }) => [pid, holds])).toEqual([
      [100, '/dev/dri/card1 (DRM master)'],
      [100, '/dev/dri/renderD129'],
      [101, '/dev/dri/card1'],
    ])
  })

  it('unbinds only this GPU while another one needs NVIDIA’s driver', async () => {
    using machine = new FakeMachine(withSecondNvidia(aorusPortB))
    const { steps } = await linuxSafeRemoval(machine).plan(aorusKey)
    expect(steps[0]).toMatchObject({ id: 'unbind-driver', command: expect.stringContaining(`echo ${gpu} >`) as string })
  })

  it('leaves the tunnel of a box alone that something else hangs behind', async () => {
    using machine = new FakeMachine(daisyChain)
    deauthorizable(machine, 0)
    const survey = await machine.survey()
    const first = survey.gpus.find(({ join: { router } }) => router?.name === '0-1')
    const { steps, notes } = await linuxSafeRemoval(machine).plan(first?.key ?? '')
    expect(steps.map(({ id }) => id)).not.toContain('deauthorize')
    expect(notes.join()).toContain('stays connected, because these share its cable')
  })

  it('removes an AMD card without touching its driver first', async () => {
    using machine = new FakeMachine(framework13)
    const survey = await machine.survey()
    const external = survey.gpus.find(({ verdict }) => verdict.conclusion === 'external')
    const { steps } = await linuxSafeRemoval(machine).plan(external?.key ?? '')
    expect(steps.map(({ id }) => id.replace(/-.*/, ''))).toEqual(expect.arrayContaining(['remove']))
    expect(steps.at(0)?.id).toMatch(/^remove-.*\.1$/)
    expect(steps.at(1)?.title).toContain('from amdgpu and off the bus')
  })

  it('sees a virtual machine through the VFIO group it has open', async () => {
    using machine = new FakeMachine(thinkpadT480)
    machine.iommuGroup(14, ['0000:09:00.0', '0000:09:00.1'])
    machine.process(77, 'qemu-system-x86', 0, ['/dev/vfio/14'])
    const survey = await machine.survey()
    const external = survey.gpus.find(({ gpu: { driver } }) => driver === 'vfio-pci')
    const { holders } = await linuxSafeRemoval(machine).plan(external?.key ?? '')
    expect(holders).toMatchObject([{ pid: 77, holds: '/dev/vfio/14' }])
  })

  it('gives other advice for a dead GPU: cable first, hands off the driver', async () => {
    using machine = new FakeMachine(aorusLost)
    const removal = linuxSafeRemoval(machine)
    const plan = await removal.plan(aorusKey)
    expect(plan.steps).toEqual([])
    expect(plan.notes[0]).toMatch(/cable first/)
    expect(await removal.run(plan)).toMatchObject({ done: false, failedStep: undefined })
  })

  it('refuses a GPU that is built in, one with a mounted disk, and an unknown key', async () => {
    const { machine, removal } = await aorus()
    using _ = machine
    const survey = await machine.survey()
    const internal = survey.gpus.find(({ verdict }) => verdict.conclusion === 'internal')
    expect((await removal.plan(internal?.key ?? '')).refusals).toEqual([expect.stringContaining('built in')])
    machine.node(sound, 'usb3/3-1/host6/block/sda/sda1', 'sda1', '8:1')
    mkdirSync(join(machine.procRoot, 'self'))
    writeFileSync(join(machine.procRoot, 'self/mountinfo'), '36 35 8:1 / /mnt/disk rw - ext4 /dev/sda1 rw\n')
    expect((await removal.plan(aorusKey)).refusals).toEqual([expect.stringContaining('/dev/sda1 on /mnt/disk')])
    await expect(removal.plan('nonsense')).rejects.toSatisfy((e) => EGpuError.is(e, EGpuErrorCode.DeviceNotFound))
  })
})

describe('running it', () => {
  it('does the steps in order, tells of each, and announces the removal first', async () => {
    const { machine } = await aorus()
    using _ = machine
    const told: string[] = []
    const removal = linuxSafeRemoval({
      ...context(machine),
      onRemoval: (key, expected) => told.push(`expect ${key} ${expected}`),
    })
    const outcome = await removal.run(await removal.plan(aorusKey), {
      onStep: ({ id }, status) => told.push(`${id} ${status}`),
    })
    expect(outcome).toEqual({ done: true })
    expect(told.slice(0, 3)).toEqual([`expect ${aorusKey} true`, 'unload-driver started', 'unload-driver done'])
    expect(machine.done).toEqual([
      'modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia',
      `1 > /bus/pci/devices/${sound}/remove`,
      `1 > /bus/pci/devices/${gpu}/remove`,
      '0 > /bus/thunderbolt/devices/1-1/authorized',
    ])
  })

  it('refuses while somebody holds it, also when he came after the plan, and runs once he is gone', async () => {
    const { machine } = await aorus()
    using _ = machine
    const removal = linuxSafeRemoval(context(machine))
    const plan = await removal.plan(aorusKey)
    machine.process(100, 'blender', 0, ['/dev/dri/renderD129'])
    expect(await removal.run(plan)).toMatchObject({
      done: false,
      failedStep: undefined,
      reason: expect.stringContaining('blender (100)') as string,
      holders: [{ pid: 100 }],
    })
    expect(machine.done).toEqual([])
    machine.end(100)
    expect(await removal.run(plan)).toEqual({ done: true })
  })

  it('takes back what was done when a step fails, the last first', async () => {
    const { machine } = await aorus()
    using _ = machine
    machine.broken.set(`/bus/pci/devices/${gpu}/remove`, 'Device or resource busy')
    const expected: boolean[] = []
    const removal = linuxSafeRemoval({ ...context(machine), onRemoval: (_key, is) => expected.push(is) })
    const outcome = await removal.run(await removal.plan(aorusKey))
    expect(expected).toEqual([true, false])
    expect(outcome).toEqual({
      done: false,
      failedStep: `remove-${gpu}`,
      reason: 'Device or resource busy',
      undone: [`remove-${gpu}`, `remove-${sound}`, 'unload-driver'],
      holders: [],
    })
    expect(machine.done.slice(-3)).toEqual([
      '1 > /bus/pci/devices/0000:2d:00.0/rescan',
      '1 > /bus/pci/devices/0000:2d:00.0/rescan',
      'modprobe -a nvidia nvidia_uvm nvidia_modeset nvidia_drm',
    ])
  })

  it('does not run a plan for a machine that has changed since', async () => {
    const { machine } = await aorus()
    using _ = machine
    const removal = linuxSafeRemoval(context(machine))
    const plan = await removal.plan(aorusKey)
    const forged = { ...plan, steps: plan.steps.slice(1) }
    expect(await removal.run(forged)).toMatchObject({
      done: false,
      reason: expect.stringContaining('changed') as string,
    })
    expect(machine.done).toEqual([])
  })

  it('stops at the abort, takes back, and rejects with the reason', async () => {
    const { machine } = await aorus()
    using _ = machine
    const stop = new AbortController()
    const removal = linuxSafeRemoval(context(machine))
    const running = removal.run(await removal.plan(aorusKey), {
      signal: stop.signal,
      onStep: ({ id }, status) => {
        if (id.startsWith('remove') && status === 'done') stop.abort(new Error('enough'))
      },
    })
    await expect(running).rejects.toThrow('enough')
    expect(machine.done.at(-1)).toBe('modprobe -a nvidia nvidia_uvm nvidia_modeset nvidia_drm')
  })

  it('carries actions out in a child process, and reports what the system said', async () => {
    using machine = new FakeMachine(framework13)
    const survey = await machine.survey()
    const external = survey.gpus.find(({ verdict }) => verdict.conclusion === 'external')
    const removal = linuxSafeRemoval({ ...context(machine), execute: executeInChild })
    const outcome = await removal.run(await removal.plan(external?.key ?? ''))
    // No kernel stands behind these files: writing works, and nothing goes away.
    expect(outcome).toMatchObject({ done: false, reason: expect.stringContaining('still on the bus') as string })
  })

  it('never changes a recorded machine, even as root and with its processes at hand', async () => {
    using machine = new FakeMachine(framework13)
    const survey = await machine.survey()
    const external = survey.gpus.find(({ verdict }) => verdict.conclusion === 'external')
    const removal = linuxSafeRemoval({ ...context(machine), execute: undefined })
    const plan = await removal.plan(external?.key ?? '')
    expect(plan.steps).not.toEqual([])
    expect(plan.refusals).toEqual(['this is a recorded machine, which is never changed'])
    expect(await removal.run(plan)).toMatchObject({ done: false, failedStep: undefined, reason: plan.refusals[0] })
  })
})

function context(machine: FakeMachine): Parameters<typeof linuxSafeRemoval>[0] {
  const { sysfsRoot, procRoot, survey, execute } = machine
  return { sysfsRoot, procRoot, survey, execute }
}

function withSecondNvidia(machine: Machine): Machine {
  const second = { at: '00:01.0', id: '10de:1f91', class: '030000', driver: 'nvidia' }
  return { ...machine, pci: [...machine.pci, second] }
}

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { whyNotCheckpointable } from '../src/processes/checkpointable.ts'
import type { Circumstances } from '../src/processes/checkpointable.ts'
import { availableHostBytes } from '../src/processes/host-memory.ts'
import { elfMachine, readProcess } from '../src/processes/proc.ts'

const mine: Circumstances = {
  driverVersion: '580.159.04',
  canCheckpoint: true,
  facts: { pid: 7, startTime: '1', parentPid: 1, processGroup: 7, uid: 1000, name: 'python', command: [] },
  elfMachine: 62,
  architecture: 'x64',
  uid: 1000,
  isOnInstance: false,
  isMpsClient: false,
  hasFailed: false,
  sharing: { hasManagedMemory: false, sharesEvents: false, sharesThroughNccl: false },
  importedBytes: 0,
  importers: [],
  hasNeighbours: false,
}
const codesOf = (change: Partial<Circumstances>): string[] =>
  whyNotCheckpointable({ ...mine, ...change }).map(({ code }) => code)

async function tree(files: Readonly<Record<string, string | Buffer>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'egpu-cuda-proc-'))
  onTestFinished(() => rm(root, { recursive: true }))
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(root, path, '..'), { recursive: true })
    await writeFile(join(root, path), content)
  }
  return root
}

describe('a process can be checkpointed', () => {
  it('when nothing is in the way, also by root and also when its program may not be read', () => {
    expect(codesOf({})).toEqual([])
    expect(codesOf({ uid: 0 })).toEqual([])
    expect(codesOf({ elfMachine: undefined })).toEqual([])
    expect(codesOf({ hasNeighbours: true })).toEqual([])
  })

  it.each<[string, Partial<Circumstances>, string]>([
    ['to another user', { uid: 1001 }, 'other-user'],
    ['to another container', { facts: undefined }, 'hidden'],
    ['to a 32-bit program', { elfMachine: 3 }, 'architecture'],
    ['to a program for ARM, run through an emulator', { elfMachine: 183 }, 'architecture'],
    ['to a machine that is no x86', { architecture: 'arm64', elfMachine: 183 }, 'architecture'],
    ['to a driver without the calls', { canCheckpoint: false }, 'driver-too-old'],
    ['to a MIG instance', { isOnInstance: true }, 'mig'],
    ['to MPS', { isMpsClient: true }, 'mps'],
    ['to who shares memory', { importedBytes: 1 }, 'ipc'],
    ['to whose memory may be open elsewhere', { importers: [8] }, 'ipc'],
    ['to who may share, when nobody can say', { importedBytes: undefined, hasNeighbours: true }, 'ipc'],
    ['to what failed for good', { hasFailed: true }, 'failed-before'],
  ])('not when it belongs %s', (_, change, code) => {
    expect(codesOf(change)).toEqual([code])
  })

  it('says every reason, each with what to do', () => {
    const reasons = whyNotCheckpointable({ ...mine, uid: 1001, isMpsClient: true, driverVersion: undefined })
    expect(reasons.map(({ code }) => code)).toEqual(['other-user', 'mps'])
    expect(reasons.map(({ reason }) => reason).join()).toMatch(/run this as that user or as root.*stop the program/)
  })
})

describe('the program of a process', () => {
  it('is known by its ELF header, and by nothing else', async () => {
    const elf = (machine: number): Buffer => {
      const header = Buffer.alloc(64)
      header.writeUInt32BE(0x7f454c46)
      header.writeUInt16LE(machine, 18)
      return header
    }
    const proc = await tree({
      '1/exe': elf(62),
      '2/exe': elf(183),
      '3/exe': '#!/bin/sh',
      '4/exe': elf(62).subarray(0, 19),
    })
    expect([1, 2, 3, 4, 5].map((pid) => elfMachine(proc, pid))).toEqual([62, 183, undefined, undefined, undefined])
  })

  it('has the user that runs it', async () => {
    const child = spawn('sleep', ['60'], process.getuid?.() === 0 ? { uid: 65_534 } : {})
    onTestFinished(() => void child.kill())
    await once(child, 'spawn')
    const uid = process.getuid?.() === 0 ? 65_534 : process.getuid?.()
    expect(readProcess('/proc', child.pid as number)?.uid).toBe(uid)
  })
})

describe('the host memory that a process can still have', () => {
  const meminfo = 'MemTotal: 9 kB\nMemAvailable:    4096 kB\n'
  const roomIn = async (files: Readonly<Record<string, string>>): Promise<number | undefined> => {
    const root = await tree(files)
    return availableHostBytes({ procRoot: join(root, 'proc'), cgroupRoot: join(root, 'cgroup') }, 7)
  }

  it('is what the machine has left where no group sets a limit', async () => {
    expect(await roomIn({ 'proc/meminfo': meminfo })).toBe(4096 * 1024)
    expect(
      await roomIn({
        'proc/meminfo': meminfo,
        'proc/7/cgroup': '0::/user.slice/a.scope\n',
        'cgroup/user.slice/a.scope/memory.max': 'max\n',
        'cgroup/user.slice/a.scope/memory.current': '1000\n',
      }),
    ).toBe(4096 * 1024)
  })

  it.each([
    ['its own group', 'cgroup/user.slice/a.scope'],
    ['a group around it', 'cgroup/user.slice'],
    ['the outermost group, as in a container', 'cgroup'],
  ])('is less where %s has a limit, whose page cache gives way', async (_, group) => {
    expect(
      await roomIn({
        'proc/meminfo': meminfo,
        'proc/7/cgroup': '0::/user.slice/a.scope\n',
        [`${group}/memory.max`]: '10000\n',
        [`${group}/memory.current`]: '7000\n',
        [`${group}/memory.stat`]: 'anon 5000\ninactive_file 500\n',
      }),
    ).toBe(3500)
  })

  it('is nothing where the group is full, and never less', async () => {
    expect(
      await roomIn({
        'proc/meminfo': meminfo,
        'proc/7/cgroup': '0::/a\n',
        'cgroup/a/memory.max': '10000',
        'cgroup/a/memory.current': '10500',
      }),
    ).toBe(0)
  })

  it('is known from groups of the first kind as well, whose largest number is no limit', async () => {
    const files = {
      'proc/meminfo': meminfo,
      'proc/7/cgroup': '12:cpu,cpuacct:/a\n5:memory:/docker/x\n',
      'cgroup/memory/docker/memory.limit_in_bytes': '9223372036854771712',
      'cgroup/memory/docker/memory.usage_in_bytes': '5',
      'cgroup/memory/docker/x/memory.limit_in_bytes': '2000',
      'cgroup/memory/docker/x/memory.usage_in_bytes': '1500',
      'cgroup/memory/docker/x/memory.stat': 'total_inactive_file 100',
    }
    expect(await roomIn(files)).toBe(600)
  })

  it('is unknown where nothing says', async () => {
    expect(await roomIn({})).toBeUndefined()
  })
})

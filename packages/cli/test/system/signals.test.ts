import { spawn, spawnSync } from 'node:child_process'
import { closeSync, constants, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../../driver-linux/test/machines/index.ts'

const bin = fileURLToPath(new URL('../../dist/bin.js', import.meta.url))

/** Long enough for a machine that does much else. */
const soon = { timeout: 60_000 }

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'egpu-signals-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

/** Long commands, how each is ended, and what it prints once it is at work. */
const commands = [
  ['watch --sysfs-root machine', 'SIGINT', /Ctrl-C ends it/],
  ['watch --sysfs-root machine', 'SIGTERM', /Ctrl-C ends it/],
  ['watch --sysfs-root machine', 'SIGHUP', /Ctrl-C ends it/],
  ['dashboard --port 0 --sysfs-root machine', 'SIGHUP', /Ctrl-C ends it/],
  ['dashboard --port 0 --simulate', 'SIGINT', /Ctrl-C ends it/],
  ['demo --no-webgpu --size 64 --steps 1000000', 'SIGTERM', /A field is computed/],
  ['mesh receive --directory keys', 'SIGINT', /Waiting for files/],
  ['mesh pair --directory keys', 'SIGHUP', /Waiting; Ctrl-C/],
  ['list --from pipe', 'SIGTERM', undefined],
  ['list --from pipe', 'SIGINT', undefined],
] as const

/** Opens the writing end, which works from the moment on that somebody reads. */
function openWriter(pipe: string): number | undefined {
  try {
    return openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    return undefined
  }
}

describe('a command that takes long', () => {
  it.each(commands)('egpu %s ends by %s, and nothing is left', async (command, signal, atWork) => {
    using machine = buildMachine(machineNamed('5'))
    const pipe = join(folder, 'pipe')
    expect(spawnSync('mkfifo', [pipe]).status).toBe(0)
    const [temporary, home] = [join(folder, 'tmp'), join(folder, 'home')]
    for (const each of [temporary, home]) mkdirSync(each)
    const args = command.split(' ').map((word) => (word === 'machine' ? machine.sysfsRoot : word))
    const child = spawn(process.execPath, [bin, ...args], {
      cwd: folder,
      env: { PATH: process.env['PATH'], HOME: home, TMPDIR: temporary },
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (said += String(data)))
    const ended = new Promise((resolve) => child.on('close', (status, by) => resolve(status ?? by)))
    let writer: number | undefined
    try {
      const isAtWork = (): boolean =>
        atWork === undefined ? (writer ??= openWriter(pipe)) !== undefined : atWork.test(said)
      await expect.poll(isAtWork, soon).toBe(true)
      child.kill(signal)
      expect(await ended).toBe(codes[signal])
    } finally {
      child.kill('SIGKILL')
      if (writer !== undefined) closeSync(writer)
    }
    expect(said).not.toMatch(/\n\s+at /)
    expect(readdirSync(temporary)).toEqual([])
  })
})

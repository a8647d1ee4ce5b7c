import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rename, rm, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { directoryStore } from '@egpu/migrator/node'
import type { DirectoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { noise, readBack, write } from './helpers/states.ts'

let home = ''
let directory = ''
const open: DirectoryStore[] = []
const storeIn = (path: string = directory): DirectoryStore => {
  const store = directoryStore(path)
  open.push(store)
  return store
}
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'egpu-lock-'))
  directory = join(home, 'store')
  await mkdir(directory)
})
afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
  await rm(home, { recursive: true, force: true })
})

const lock = (): string => join(directory, 'lock')
const parts = { part: noise(100, 1) }

/** A lock as another process would have left or held it. */
async function lockedBy(owner: object): Promise<void> {
  const { dev, ino } = await stat(directory)
  const text = { nonce: '0', host: hostname(), pid: process.pid, thread: 0, directory: `${dev}:${ino}`, ...owner }
  await writeFile(lock(), JSON.stringify(text))
}

describe('a store', () => {
  it.skipIf(process.platform === 'win32')('has one owner, whichever way leads to its directory', async () => {
    await symlink('store', join(home, 'one way'))
    await symlink('store', join(home, 'another way'))
    await storeIn(join(home, 'one way')).acquire('job')
    for (const path of [directory, join(home, 'another way'), join(directory, '.')]) {
      await expect(storeIn(path).acquire('job')).rejects.toThrow('another store of this process uses')
    }
  })

  it('has one owner among the threads of a process, for as long as that one runs', async () => {
    const path = new URL('./helpers/hold-in-thread.ts', import.meta.url).pathname
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ['--conditions=@egpu/source', '--import=tsx', path, directory],
      { encoding: 'utf8', cwd: new URL('..', import.meta.url).pathname },
    )
    expect(stderr).toBe('')
    const [during, after] = JSON.parse(stdout) as string[]
    expect(during).toContain('another store of this process uses')
    // Only Linux tells which threads there are.
    expect(after).toBe(process.platform === 'linux' ? 'token 2' : during)
  })

  it('of a network is not taken from a host that may still be at work', async () => {
    const { ino } = await stat(directory)
    await lockedBy({ host: 'elsewhere', pid: 1, directory: `77:${ino}` })
    await expect(storeIn().acquire('job')).rejects.toMatchObject({
      code: EGpuErrorCode.CheckpointFailed,
      message: expect.stringContaining('process 1 on elsewhere uses'),
    })
  })

  it.each([
    ['had the number of this one', {}],
    ['has ended', { pid: 2 ** 22 + 1 }],
    ['had the number of another that began later, perhaps after a restart of the machine', { pid: process.ppid }],
  ])('is taken over from a process that %s', async (_, owner) => {
    await lockedBy({ started: '1', ...owner })
    expect(await storeIn().acquire('job')).toBe(1)
  })

  it('is taken over where the lock was never signed, also when the clock was put back since', async () => {
    for (const at of [Date.now() - 60_000, Date.now() + 1e9]) {
      await writeFile(lock(), '')
      await utimes(lock(), at / 1_000, at / 1_000)
      const store = storeIn()
      await store.acquire('job')
      await store.close()
    }
    await writeFile(lock(), '')
    await expect(storeIn().acquire('job')).rejects.toThrow('somebody uses')
  })
})

describe.skipIf(process.platform === 'win32')('a lock that is', () => {
  it.each([
    ['a pipe', async () => void spawnSync('mkfifo', [lock()])],
    ['a directory', () => mkdir(lock())],
    ['a link', () => symlink(join(home, 'elsewhere'), lock())],
  ])('%s is named, and left to whoever made it', async (_, make) => {
    await make()
    await expect(storeIn().acquire('job')).rejects.toMatchObject({
      code: EGpuErrorCode.CheckpointFailed,
      message: expect.stringMatching(/store\/lock is .*remove/),
    })
    await rm(lock(), { recursive: true })
    expect(await storeIn().acquire('job')).toBe(1)
  })
})

describe('a lock that goes while it is held', () => {
  it('is made again: what was begun is committed, and others are kept out', async () => {
    const store = storeIn()
    const token = await store.acquire('job')
    await write(store, 'job', token, 1, parts)
    await rm(lock())
    await write(store, 'job', token, 2, parts)
    await expect(storeIn().acquire('job')).rejects.toThrow('another store of this process uses')
    await truncate(lock())
    const past = Date.now() / 1_000 - 60
    await utimes(lock(), past, past)
    await write(store, 'job', token, 3, parts)
    expect(JSON.parse(await readFile(lock(), 'utf8'))).toMatchObject({ pid: process.pid })
    expect((await store.list('job')).map(({ progress }) => progress)).toEqual([3, 2, 1])
  })

  it('is made again once, however many miss it at a time', async () => {
    const store = storeIn()
    const ids = Array.from({ length: 8 }, (_, i) => `job ${i}`)
    const tokens = await Promise.all(ids.map((id) => store.acquire(id)))
    for (let round = 1; round <= 5; round += 1) {
      await rm(lock())
      await Promise.all(ids.map((id, i) => write(store, id, tokens[i] as number, round, parts)))
    }
    for (const id of ids) expect(await store.list(id)).toHaveLength(5)
  })

  it('does not let in what somebody else shut out in between', async () => {
    const store = storeIn()
    const token = await store.acquire('job')
    await rm(lock())
    const other = storeIn()
    expect(await other.acquire('job')).toBe(token + 1)
    await expect(write(store, 'job', token, 1, parts)).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
    await other.close()
    await expect(write(store, 'job', token, 1, parts)).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
    await write(store, 'job', await store.acquire('job'), 1, parts)
  })
})

it('a directory that another one took the place of holds no checkpoints, and is not believed to', async () => {
  const store = storeIn()
  const token = await store.acquire('job')
  await write(store, 'job', token, 1, parts)
  await rename(directory, `${directory}-away`)
  const isRefused = async (words: string): Promise<void> => {
    for (const call of [
      () => store.list('job'),
      () => store.open('job', 1),
      () => store.acquire('job'),
      () => store.acquire('new'),
      () => write(store, 'job', token, 2, parts),
    ]) {
      await expect(call()).rejects.toMatchObject({
        code: EGpuErrorCode.CheckpointFailed,
        message: expect.stringContaining(words),
      })
    }
  }
  await isRefused('is not there')
  await mkdir(directory)
  await isRefused('is another directory than it was; was it replaced, or its disk unmounted?')
  await rm(directory, { recursive: true })
  await rename(`${directory}-away`, directory)
  expect(await readBack(await store.open('job', 1))).toEqual(parts)
  await write(store, 'job', token, 2, parts)
})

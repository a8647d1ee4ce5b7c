import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { directoryJournal, directoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asNobody } from './helpers/as-nobody.ts'
import { bench } from './helpers/bench.ts'
import { Mixer } from './helpers/mixer.ts'
import { noise, write } from './helpers/states.ts'

let home = ''
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'egpu-place-'))
  await chmod(home, 0o755)
})
afterEach(() => rm(home, { recursive: true, force: true }))

interface Unusable {
  readonly what: string
  /** Makes it and gives the path that a user would name. */
  readonly make: () => Promise<string>
  readonly errno: string
  readonly says: readonly string[]
}

const places: readonly Unusable[] = [
  {
    what: 'a file',
    make: async () => {
      await writeFile(join(home, 'notes'), '')
      return join(home, 'notes')
    },
    errno: 'ENOTDIR',
    says: ['notes is a file and no directory', 'name another place'],
  },
  {
    what: 'below a link to a file',
    make: async () => {
      await writeFile(join(home, 'notes'), '')
      await symlink('notes', join(home, 'link'))
      return join(home, 'link', 'store')
    },
    errno: 'ENOTDIR',
    says: ['link is a file and no directory'],
  },
  {
    what: 'a link that leads nowhere',
    make: async () => {
      await symlink('/nowhere/at/all', join(home, 'link'))
      return join(home, 'link')
    },
    errno: 'ENOENT',
    says: ['link is a symbolic link to /nowhere/at/all, which is not there', 'remove the link'],
  },
  {
    what: 'a link that leads back to itself',
    make: async () => {
      await symlink('one', join(home, 'two'))
      await symlink('two', join(home, 'one'))
      return join(home, 'one')
    },
    errno: 'ELOOP',
    says: ['one is a symbolic link that leads back to itself', 'remove it'],
  },
  {
    what: 'where this user may not go',
    make: async () => {
      await mkdir(join(home, 'private'), { mode: 0o700 })
      // For those who run this without being the superuser.
      if (process.geteuid?.() !== 0) await chmod(join(home, 'private'), 0)
      return join(home, 'private', 'store')
    },
    errno: 'EACCES',
    says: ['private/store', 'the right to read and write it'],
  },
  {
    what: 'where this user may not write',
    make: async () => {
      await mkdir(join(home, 'public'))
      await chmod(join(home, 'public'), 0o555)
      return join(home, 'public')
    },
    errno: 'EACCES',
    says: ['/public', 'the right to read and write it'],
  },
  {
    what: 'longer than a name may be',
    make: async () => join(home, 'x'.repeat(1_000)),
    errno: 'ENAMETOOLONG',
    says: ['…', 'name a shorter one'],
  },
  {
    what: 'where the system makes no directories',
    make: async () => '/proc/self/store',
    errno: 'ENOENT',
    says: ['/proc/self/store', 'cannot be made'],
  },
]

async function failureOf(work: () => Promise<unknown>): Promise<EGpuError> {
  return asNobody(work).then(
    () => expect.unreachable('it worked'),
    (error: EGpuError) => error,
  )
}

describe.skipIf(process.platform === 'win32').each(places)('a place that is $what', ({ make, errno, says }) => {
  const expectClear = (error: EGpuError): void => {
    expect(error).toMatchObject({ code: EGpuErrorCode.CheckpointFailed, cause: { code: errno } })
    for (const words of [...says, `(${errno})`]) expect(error.message).toContain(words)
    expect(error.message.length).toBeLessThan(700)
  }

  it('is told of by every call into a store there, and is no hindrance once it is mended', async () => {
    const path = await make()
    await using store = directoryStore(path)
    const record = { workloadId: 'job', token: 1, progress: 0, parts: [] }
    for (const call of [
      () => store.acquire('job'),
      () => store.list('job'),
      () => store.damaged('job'),
      () => store.workloads(),
      () => store.begin(record),
      () => store.open('job', 1),
      () => store.verify('job', 1),
      () => store.remove('job', 1),
    ]) {
      expectClear(await failureOf(call))
    }
    if (errno === 'ENAMETOOLONG' || path.startsWith('/proc')) return
    await chmod(join(home, 'private'), 0o700).catch(() => undefined)
    await rm(join(home, 'link'), { force: true })
    await rm(path, { recursive: true, force: true })
    await write(store, 'job', await store.acquire('job'), 1, { part: noise(10, 1) })
    expect(await store.workloads()).toEqual(['job'])
  })

  it('is told of by the calls that need a journal there', async () => {
    await using journal = directoryJournal(await make())
    const record = { workloadId: 'job', priority: 0, victimsSince: 0, homes: [], victims: [] }
    for (const call of [
      () => journal.write(record),
      async () => journal.loadDevices?.(),
      async () => journal.writeDevice?.({ key: 'gpu', faultsAtMs: [], deaths: [] }),
    ]) {
      expectClear(await failureOf(call))
    }
  })

  it('is told of on the event stream, with the work parked until there is a store', async () => {
    const path = await make()
    await asNobody(async () => {
      await using store = directoryStore(path)
      await using b = await bench({ store })
      const errors: EGpuError[] = []
      b.manager.on('migration-failed', ({ error }) => void errors.push(error))
      b.manager.on('checkpoint-failed', ({ error }) => void errors.push(error))
      const run = b.migrator.run(new Mixer({ clock: b.clock }))
      run.finished.catch(() => undefined)
      const isTold = (): boolean => errors.some(({ message }) => says.every((words) => message.includes(words)))
      // The disk of this test is a real one, which virtual time does not wait for.
      for (let round = 0; !isTold() && round < 20_000; round += 1) {
        await b.clock.advance(1)
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      expect(isTold()).toBe(true)
      expect(errors.every((error) => EGpuError.is(error))).toBe(true)
      expect(run.where).toBeUndefined()
    })
  })
})

it.each(['', 'a\0b', undefined, 7, new URL('file:///tmp/store')])(
  'neither a store nor a journal takes %j for a path',
  (path) => {
    expect(() => directoryStore(path as string)).toThrow(TypeError)
    expect(() => directoryJournal(path as string)).toThrow('needs the path of a directory')
  },
)

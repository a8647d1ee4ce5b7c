import { basename } from 'node:path'
import type { MigrationJournal } from '@egpu/migrator'
import { nodeFs } from '../../../packages/migrator/src/node/store-fs.ts'
import type { StoreFile, StoreFs } from '../../../packages/migrator/src/node/store-fs.ts'

/** A place where the process may end, told apart by its name. Does not come back where it does. */
export type Point = (name: string) => void

/** Node's file system, with a point before and after each call and in the middle of each write. */
export function pointedFs(point: Point): StoreFs {
  const around = async <T>(call: string, path: string, work: () => Promise<T>): Promise<T> => {
    const what = `${call} ${kindOf(path)}`
    point(`before ${what}`)
    const value = await work()
    point(`after ${what}`)
    return value
  }
  const file = (inner: StoreFile, path: string): StoreFile => ({
    fd: inner.fd,
    read: (into, position) => around('read', path, () => inner.read(into, position)),
    write: (bytes, position) =>
      around('write', path, async () => {
        const half = bytes.byteLength >> 1
        await inner.write(bytes.subarray(0, half), position)
        point(`within write ${kindOf(path)}`)
        await inner.write(bytes.subarray(half), position + half)
      }),
    sync: () => around('sync', path, () => inner.sync()),
    flush: () => around('flush', path, async () => inner.flush?.()),
    size: () => inner.size(),
    close: () => around('close', path, () => inner.close()),
  })
  return {
    open: (path, mode) => around(`open to ${mode}`, path, async () => file(await nodeFs.open(path, mode), path)),
    list: (directory) => around('list', directory, () => nodeFs.list(directory)),
    makeDirectory: (path) => around('make', path, () => nodeFs.makeDirectory(path)),
    rename: (from, to) => around(`rename ${kindOf(from)} to`, to, () => nodeFs.rename(from, to)),
    remove: (path) => around('remove', path, () => nodeFs.remove(path)),
    syncDirectory: (path) => around('sync', path, () => nodeFs.syncDirectory(path)),
    identify: (path) => nodeFs.identify(path),
  }
}

/** A journal with a point before and after each call. */
export function pointedJournal(inner: MigrationJournal, point: Point): MigrationJournal {
  return new Proxy(inner, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function' || typeof name !== 'string') return value
      return async (...args: readonly unknown[]) => {
        point(`before journal ${name}`)
        const result: unknown = await Reflect.apply(value, target, args)
        point(`after journal ${name}`)
        return result
      }
    },
  })
}

/** What a file of the store is for. */
function kindOf(path: string): string {
  const name = basename(path)
  const what = /lock|counters|manifest|pack/.exec(name)?.[0] ?? 'directory'
  return name.endsWith('.tmp') ? `new ${what}` : name.endsWith('.left') ? `old ${what}` : what
}

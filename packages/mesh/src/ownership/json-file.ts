import { open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { makeDirectory } from '@egpu/migrator/node'

/** `undefined` when there is no file. Rejects with `EGPU_MALFORMED_DATA` rather than take a damaged one for none. */
export async function readJson(path: string): Promise<unknown> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    const message = `${path} cannot be read; restore it from a backup, since what it kept must not be forgotten`
    throw new EGpuError(EGpuErrorCode.MalformedData, message, { cause: error })
  }
}

interface Turn {
  value: () => unknown
  readonly done: Promise<void>
}

/** Writes that have not begun, by path: what comes meanwhile is in them. */
const waiting = new Map<string, Turn>()
/** The last write of each path: one after the other. */
const last = new Map<string, Promise<void>>()

/**
 * All or nothing, and on the disk once it resolves. What `value` gives when its turn comes is written, once for all who asked while
 * the write before was under way.
 */
export function writeJson(path: string, value: () => unknown): Promise<void> {
  const known = waiting.get(path)
  if (known !== undefined) {
    known.value = value
    return known.done
  }
  const begin = (): Promise<void> => {
    waiting.delete(path)
    return replace(path, turn.value())
  }
  const done = (last.get(path) ?? Promise.resolve()).catch(() => undefined).then(begin)
  const turn: Turn = { value, done }
  waiting.set(path, turn)
  last.set(path, done)
  const forget = (): void => {
    if (last.get(path) === done) last.delete(path)
  }
  done.then(forget, forget)
  return done
}

async function replace(path: string, value: unknown): Promise<void> {
  await makeDirectory(dirname(path))
  const temporary = `${path}.tmp`
  const file = await open(temporary, 'w', 0o600)
  try {
    await file.writeFile(JSON.stringify(value))
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
  const directory = await open(dirname(path), 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

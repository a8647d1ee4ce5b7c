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

/** Writes under way, by path: one after the other, each with what is true when its turn comes. */
const writing = new Map<string, Promise<void>>()

/** All or nothing, and on the disk once it resolves. */
export function writeJson(path: string, value: () => unknown): Promise<void> {
  const turn = (writing.get(path) ?? Promise.resolve()).catch(() => undefined).then(() => replace(path, value()))
  writing.set(path, turn)
  const forget = (): void => {
    if (writing.get(path) === turn) writing.delete(path)
  }
  turn.then(forget, forget)
  return turn
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

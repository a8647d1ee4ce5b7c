import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { makeDirectory, makeDirectorySync } from '../src/node/make-directory.ts'

const folder = mkdtempSync(join(tmpdir(), 'egpu-make-directory-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
writeFileSync(join(folder, 'file'), '')
symlinkSync(folder, join(folder, 'link'))

const both = [
  ['makeDirectory', makeDirectory],
  ['makeDirectorySync', async (path: string, mode?: number): Promise<void> => makeDirectorySync(path, mode)],
] as const

describe.each(both)('%s', (name, make) => {
  it('makes what is missing, for whom it is told to, and what is there again', async () => {
    const path = join(folder, name, 'one', 'two')
    await make(path, 0o700)
    await make(path, 0o700)
    expect(statSync(path).mode & 0o777).toBe(0o700)
    await make(join(folder, 'link', name, 'three'))
    expect(statSync(join(folder, name, 'three')).isDirectory()).toBe(true)
  })

  it('makes a directory that several make at once', async () => {
    const path = join(folder, name, 'contended', 'deep')
    await Promise.all(Array.from({ length: 20 }, () => make(path)))
    expect(statSync(path).isDirectory()).toBe(true)
  })

  it.each(['/proc/nowhere', '/proc/nowhere/deep/below', '/proc/self/nowhere'])('does not hang at %s', async (path) => {
    await expect(make(path)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('says that a file is in the way', async () => {
    await expect(make(join(folder, 'file', 'below'))).rejects.toMatchObject({ code: 'ENOTDIR' })
  })
})

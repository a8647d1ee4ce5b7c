import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { CommandError } from '../command-error.ts'

export interface PageFile {
  readonly type: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

const files = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/page.js': ['page.js', 'text/javascript; charset=utf-8'],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
} as const

/** Where the build puts the page: beside the built code, and where the sources find it. */
const homes = ['dashboard/', '../../dist/dashboard/'].map((path) => fileURLToPath(new URL(path, import.meta.url)))

/** The built page, by the path it is asked for under. */
export function pageFiles(candidates: readonly string[] = homes): ReadonlyMap<string, PageFile> {
  const directory = candidates.find((candidate) => existsSync(join(candidate, 'page.js')))
  if (directory === undefined)
    throw new CommandError(
      'ENOENT',
      'the page of the dashboard is not built; in a clone of the repository, run: npm run build',
    )
  return new Map(
    Object.entries(files).map(([path, [name, type]]) => [
      path,
      { type, bytes: new Uint8Array(readFileSync(join(directory, name))) },
    ]),
  )
}

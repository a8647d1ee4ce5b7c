import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'

export interface PageFile {
  readonly type: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

const files = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/page.js': ['page.js', 'text/javascript; charset=utf-8'],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
} as const

/** The built page, by the path it is asked for under. */
export function pageFiles(
  directory: string = fileURLToPath(new URL('dashboard/', import.meta.url)),
): ReadonlyMap<string, PageFile> {
  return new Map(
    Object.entries(files).map(([path, [name, type]]) => [
      path,
      { type, bytes: new Uint8Array(readFileSync(join(directory, name))) },
    ]),
  )
}

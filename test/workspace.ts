import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

export const root: string = fileURLToPath(new URL('..', import.meta.url))

export interface Manifest {
  readonly name: string
  readonly private?: boolean
  readonly keywords?: readonly string[]
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

export interface Room {
  readonly path: string
  readonly manifest: Manifest
}

/** Every package of the workspace, read from its manifest. */
export function rooms(parent: 'packages' | 'examples'): Room[] {
  const home = join(root, parent)
  if (!existsSync(home)) return []
  return readdirSync(home)
    .map((name) => join(home, name))
    .filter((path) => existsSync(join(path, 'package.json')))
    .map((path) => ({ path, manifest: JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as Manifest }))
}

/** Entry points a user can import, as `[subpath, source file]`. */
export function entries({ path, manifest }: Room): [string, string][] {
  return Object.entries(manifest.exports ?? {}).flatMap(([subpath, target]) =>
    typeof target === 'string' || target['@egpu/source'] === undefined
      ? []
      : [[subpath, join(path, target['@egpu/source'])] as [string, string]],
  )
}

export function sources(directory: string): string[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
    .map((name) => join(directory, name))
}

/** Module specifiers a file mentions: imports, re-exports, `import()` of a literal. */
export function imports(file: string): string[] {
  return ts.preProcessFile(readFileSync(file, 'utf8'), true, true).importedFiles.map(({ fileName }) => fileName)
}

/** Every file of a package that its entry pulls in, directly or not, without leaving the package. */
export function reachable(entry: string): Set<string> {
  const seen = new Set<string>()
  const queue = [entry]
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (seen.has(file)) continue
    seen.add(file)
    for (const specifier of imports(file)) if (specifier.startsWith('.')) queue.push(resolve(dirname(file), specifier))
  }
  return seen
}

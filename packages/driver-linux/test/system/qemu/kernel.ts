import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cache } from './cache.ts'

/** A Debian kernel, unpacked but not installed. */
export interface Kernel {
  readonly version: string
  readonly image: string
  /** Directory that holds `lib/modules/<version>`. */
  readonly root: string
}

/**
 * The kernel that Debian's `linux-image-amd64` stands for today. The package is fetched with apt, which checks its
 * signature, and unpacked below the cache; a version that is there already is not fetched again.
 */
export function debianKernel(): Kernel {
  const name = resolvePackage()
  const version = name.slice('linux-image-'.length)
  const root = join(cache, name)
  if (!existsSync(root)) {
    const work = join(cache, `${name}.${process.pid}`)
    mkdirSync(work, { recursive: true })
    execFileSync('apt-get', ['-q', 'download', name], { cwd: work, stdio: ['ignore', 'ignore', 'pipe'] })
    const archive = readdirSync(work).find((file) => file.endsWith('.deb'))
    if (archive === undefined) throw new Error(`apt-get download ${name} left no package`)
    const unpacked = join(work, 'root')
    execFileSync('dpkg-deb', ['-x', join(work, archive), unpacked])
    execFileSync('/sbin/depmod', ['-b', unpacked, version])
    renameSync(unpacked, root)
    rmSync(work, { recursive: true })
  }
  return { version, image: join(root, 'boot', `vmlinuz-${version}`), root }
}

/** The meta package names the kernel of the day; without package lists the newest unpacked one serves. */
function resolvePackage(): string {
  const depends = execFileSync('apt-cache', ['depends', 'linux-image-amd64'], { encoding: 'utf8' })
  const name = /Depends: (linux-image-\d\S+)/.exec(depends)?.[1]
  if (name !== undefined) return name
  const unpacked = existsSync(cache)
    ? readdirSync(cache).filter((entry) => /^linux-image-\d\S*-amd64$/.test(entry))
    : []
  const newest = unpacked.sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)
  if (newest === undefined) throw new Error('apt knows no linux-image-amd64: run apt-get update')
  return newest
}

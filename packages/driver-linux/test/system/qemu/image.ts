import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cache } from './cache.ts'
import type { Kernel } from './kernel.ts'

/** Modules the guest loads; their dependencies come along. */
const modules = [
  'bochs',
  'snd_hda_intel',
  'xhci_pci',
  'nvme',
  'vfio_pci',
  'vfio_iommu_type1',
  'thunderbolt',
  'virtio_pci',
  'virtio_console',
  'dummy_hcd',
  'libcomposite',
  'usb_f_acm',
  'usb_f_hid',
  'usb_f_mass_storage',
]

const packageRoot = fileURLToPath(new URL('../../../', import.meta.url))
const guestFiles = fileURLToPath(new URL('./guest/', import.meta.url))

/**
 * Two archives in one initramfs: the system, which changes with the kernel and with Node, and the built SDK with the
 * guest's own programs, which changes all the time. Each is kept under the hash of what went in.
 */
export function buildImage(kernel: Kernel): string {
  mkdirSync(cache, { recursive: true })
  const system = systemArchive(kernel)
  const sdk = sdkArchive()
  const image = join(cache, `initrd-${hashOf([basename(system), basename(sdk)])}.cpio`)
  if (!existsSync(image)) {
    for (const stale of readdirSync(cache)) if (stale.startsWith('initrd-')) rmSync(join(cache, stale))
    writeFileSync(`${image}.new`, Buffer.concat([readFileSync(system), readFileSync(sdk)]))
    renameSync(`${image}.new`, image)
  }
  return image
}

function systemArchive(kernel: Kernel): string {
  const programs = [process.execPath, '/bin/busybox', '/bin/kmod']
  const identity = programs.map((program) => {
    const { size, mtimeMs } = lstatSync(realpathSync(program))
    return `${program} ${size} ${mtimeMs}`
  })
  return archive('system', hashOf(['2', kernel.version, ...identity, ...modules]), (root) => {
    for (const directory of ['bin', 'sbin', 'proc', 'sys', 'dev', 'run', 'tmp', 'etc', 'root', 'app']) {
      mkdirSync(join(root, directory), { recursive: true })
    }
    for (const program of programs) {
      copyFileSync(realpathSync(program), join(root, 'bin', basename(program)))
      copyLibraries(program, root)
    }
    const applets = execFileSync('/bin/busybox', ['--list'], { encoding: 'utf8' }).trim().split('\n')
    const byKmod = ['modprobe', 'insmod', 'rmmod', 'lsmod', 'depmod', 'modinfo']
    for (const applet of applets) {
      if (applet !== 'busybox' && !byKmod.includes(applet)) symlinkSync('busybox', join(root, 'bin', applet))
    }
    for (const name of byKmod) symlinkSync('kmod', join(root, 'bin', name))
    symlinkSync('../bin/kmod', join(root, 'sbin/modprobe'))
    copyModules(kernel, root)
    writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nmaker:x:1000:1000::/tmp:/bin/sh\n')
    writeFileSync(join(root, 'etc/group'), 'root:x:0:\nvideo:x:44:\nrender:x:104:\n')
  })
}

function copyLibraries(program: string, root: string): void {
  let listing: string
  try {
    listing = execFileSync('ldd', [program], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return // statically linked
  }
  for (const [, library] of listing.matchAll(/(?:=> |^\s+)(\/\S+)/gm)) {
    if (library === undefined) continue
    const target = join(root, library)
    mkdirSync(dirname(target), { recursive: true })
    if (!existsSync(target)) copyFileSync(realpathSync(library), target)
  }
}

function copyModules({ root: kernelRoot, version }: Kernel, root: string): void {
  const needed = new Set<string>()
  for (const name of modules) {
    const steps = execFileSync('/sbin/modprobe', ['-d', kernelRoot, '-S', version, '--show-depends', name], {
      encoding: 'utf8',
    })
    for (const [, file] of steps.matchAll(/^insmod (\S+)/gm)) if (file !== undefined) needed.add(file)
  }
  for (const file of needed) {
    const target = join(root, file.slice(file.indexOf('/lib/modules/')))
    mkdirSync(dirname(target), { recursive: true })
    copyFileSync(file, target)
    if (file.endsWith('.xz')) execFileSync('xz', ['-d', target])
  }
  for (const list of ['modules.builtin', 'modules.builtin.modinfo', 'modules.order']) {
    copyFileSync(join(kernelRoot, 'lib/modules', version, list), join(root, 'lib/modules', version, list))
  }
  execFileSync('/sbin/depmod', ['-b', root, version])
}

function sdkArchive(): string {
  const core = join(packageRoot, '../core')
  for (const directory of [core, packageRoot]) {
    if (!existsSync(join(directory, 'dist/index.js')))
      throw new Error(`${directory} is not built: run pnpm build first`)
  }
  const trees = [join(core, 'dist'), join(packageRoot, 'dist'), join(packageRoot, 'src/native'), guestFiles]
  return archive('sdk', hashOf(trees.flatMap((tree) => filesBelow(tree).map((file) => readFileSync(file)))), (root) => {
    const home = join(root, 'app/node_modules')
    copyPackage(core, join(home, '@egpu/core'), ['dist', 'package.json'])
    copyPackage(packageRoot, join(home, '@egpu/driver-linux'), ['dist', 'src/native', 'package.json'])
    const require = createRequire(join(packageRoot, 'package.json'))
    copyDependency(require, 'koffi', home)
    copyDependency(require, 'usb', home)
    copyDependency(createRequire(join(core, 'package.json')), 'eventemitter3', home)
    for (const file of filesBelow(home)) if (file.endsWith('.node')) copyLibraries(file, root)
    for (const file of readdirSync(guestFiles)) {
      cpSync(join(guestFiles, file), file === 'init' ? join(root, 'init') : join(root, 'app', file))
    }
    chmodSync(join(root, 'init'), 0o755)
  })
}

function copyPackage(from: string, to: string, parts: readonly string[]): void {
  for (const part of parts) cpSync(join(from, part), join(to, part), { recursive: true, dereference: true })
}

/** A package with the dependencies that its manifest names and that are installed, flat. */
function copyDependency(require: NodeJS.Require, name: string, home: string): void {
  const target = join(home, name)
  if (existsSync(target)) return
  let entry: string
  try {
    entry = require.resolve(name)
  } catch {
    return // an optional binary of another platform
  }
  let from = dirname(entry)
  while (!existsSync(join(from, 'package.json')) || !from.endsWith(join('node_modules', name))) from = dirname(from)
  cpSync(from, target, {
    recursive: true,
    dereference: true,
    filter: (path) =>
      !/\/(?:vendor|doc|musl_x64|node_modules\/[^/]+\/node_modules)(?:\/|$)/.test(path.slice(from.length)),
  })
  const manifest = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')) as Record<string, object | undefined>
  const needs = Object.keys({ ...manifest['dependencies'], ...manifest['optionalDependencies'] })
  for (const need of needs) if (!need.startsWith('@types/')) copyDependency(createRequire(entry), need, home)
}

/** Makes a cpio archive of what `fill` puts into an empty directory, unless one with this key is there. */
function archive(name: string, key: string, fill: (root: string) => void): string {
  const file = join(cache, `${name}-${key}.cpio`)
  if (existsSync(file)) return file
  for (const stale of readdirSync(cache)) if (stale.startsWith(`${name}-`)) rmSync(join(cache, stale))
  const root = mkdtempSync(join(tmpdir(), `egpu-${name}-`))
  try {
    // mkdtemp makes it private, and it becomes the guest's `/`.
    chmodSync(root, 0o755)
    fill(root)
    execFileSync('sh', ['-c', 'find . -print0 | cpio --null --quiet -o -H newc > "$0"', `${file}.new`], { cwd: root })
    renameSync(`${file}.new`, file)
  } finally {
    rmSync(root, { recursive: true })
  }
  return file
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort((a, b) => a.localeCompare(b, 'en'))
}

function hashOf(parts: readonly (string | Buffer)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part).update('\0')
  return hash.digest('hex').slice(0, 16)
}

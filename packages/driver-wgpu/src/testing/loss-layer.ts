import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { LossControl } from './loss-control.ts'
import { findSwiftShader, writeDriverManifest } from './swiftshader.ts'

/** A software Vulkan device that can be lost for real. */
export interface LossRig extends Disposable {
  /** Set these in `process.env`, or in a child's environment, before anything loads Vulkan. */
  readonly environment: Readonly<Record<string, string>>
  readonly control: LossControl
}

export interface LossRigOptions {
  /** Lets the software device pass for a graphics card of this name, so that what lists GPUs lists it. */
  readonly disguise?: string | undefined
}

/**
 * Builds the Vulkan layer that loses devices and puts it above SwiftShader. The library is kept in a cache directory,
 * so it is compiled once.
 *
 * Rejects with `EGPU_NATIVE_UNAVAILABLE` and the missing piece: not Linux, no SwiftShader (Debian: `chromium-common`,
 * or `EGPU_SWIFTSHADER=/path/to/libvk_swiftshader.so`), no C compiler, no Vulkan headers (Debian: `libvulkan-dev`).
 */
export function prepareLossRig(options: LossRigOptions = {}): LossRig {
  if (process.platform !== 'linux')
    throw unavailable(`the loss layer is built for Linux only, this is ${process.platform}`)
  const driver = findSwiftShader()
  if (driver === undefined) {
    throw unavailable('SwiftShader is not there: install Debian package chromium-common or set EGPU_SWIFTSHADER')
  }
  const library = buildLossLayer()
  const directory = mkdtempSync(join(tmpdir(), 'egpu-loss-'))
  writeFileSync(join(directory, 'loss-layer.json'), JSON.stringify(layerManifest(library)))
  const control = new LossControl(join(directory, 'control'))
  return {
    control,
    environment: {
      VK_DRIVER_FILES: writeDriverManifest(directory, driver),
      // Loaders before 1.3.207 know only the older name.
      VK_ICD_FILENAMES: join(directory, 'swiftshader-icd.json'),
      VK_LAYER_PATH: directory,
      VK_INSTANCE_LAYERS: layerName,
      // Mesa's layer, present wherever its drivers are, has no say here.
      NODEVICE_SELECT: '1',
      EGPU_LOSS_CONTROL: control.path,
      ...(options.disguise === undefined ? {} : { EGPU_LOSS_DISGUISE: options.disguise }),
    },
    [Symbol.dispose]: () => {
      control[Symbol.dispose]()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

const layerName = 'VK_LAYER_EGPU_loss'

function layerManifest(library: string): object {
  return {
    file_format_version: '1.1.2',
    layer: {
      name: layerName,
      type: 'GLOBAL',
      library_path: library,
      api_version: '1.3.0',
      implementation_version: '1',
      description: 'Loses devices on request',
    },
  }
}

/** Compiles native/loss-layer.c unless this very source was compiled before; returns the library's path. */
function buildLossLayer(): string {
  const require = createRequire(import.meta.url)
  const source = join(dirname(require.resolve('@egpu/driver-wgpu/package.json')), 'native', 'loss-layer.c')
  const digest = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16)
  const cache = cacheDirectory()
  const library = join(cache, `loss-layer-${digest}-${process.arch}.so`)
  if (existsSync(library)) return library
  const fresh = `${library}.${process.pid}`
  const compiler = process.env['CC'] ?? 'cc'
  try {
    execFileSync(compiler, ['-shared', '-fPIC', '-O2', '-pthread', '-o', fresh, source], { stdio: 'pipe' })
  } catch (cause) {
    throw unavailable(compileFailure(compiler, cause), cause)
  }
  // Several test workers may build it at once; each renames a finished file.
  renameSync(fresh, library)
  return library
}

/** Where the compiled layer is kept: below XDG_CACHE_HOME, or in a place of this user's among the temporary files. */
function cacheDirectory(): string {
  const { XDG_CACHE_HOME: given = '' } = process.env
  const owner = process.getuid?.()
  const caches = isAbsolute(given) ? given : join(tmpdir(), `egpu-cache-${owner ?? 0}`)
  const cache = join(caches, 'egpu')
  try {
    makeDirectory(cache)
  } catch (cause) {
    throw unavailable(`there is no directory ${cache} to keep the loss layer in: set XDG_CACHE_HOME`, cause)
  }
  if (caches === given) return cache
  // Anybody could have made a directory of this name, and what is in it gets loaded.
  const made = lstatSync(caches)
  if (!made.isDirectory() || made.uid !== owner || (made.mode & 0o022) !== 0) {
    throw unavailable(`${caches} is not this user's alone, and a library in it is not loaded: set XDG_CACHE_HOME`)
  }
  return cache
}

/** Not with `recursive`, which never comes back from below /proc. Several test workers may make it at once. */
function makeDirectory(path: string): void {
  if (existsSync(path)) return
  makeDirectory(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (!existsSync(path)) throw error
  }
}

function compileFailure(compiler: string, cause: unknown): string {
  if ((cause as NodeJS.ErrnoException).code === 'ENOENT') {
    return `the C compiler ${compiler} is not there: install one (Debian: gcc libc6-dev) or set CC`
  }
  const output = String((cause as { stderr?: unknown }).stderr ?? cause)
  if (output.includes('vulkan/')) return 'the Vulkan headers are not there: install Debian package libvulkan-dev'
  return `the loss layer does not compile: ${output.trim()}`
}

function unavailable(message: string, cause?: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.NativeUnavailable, message, { driver: 'wgpu', cause })
}

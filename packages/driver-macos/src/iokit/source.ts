import { EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { ProbeResult } from '@egpu/core/driver'
import type { Libraries, LibraryPaths } from '../native/libraries.d.ts'
import type { Registry, RegistrySource } from '../registry/source.ts'
import { listSystemExtensions } from '../system-extensions.ts'
import { PollWatch } from './poll-watch.ts'
import { PushWatch } from './push-watch.ts'
import { IoKitRegistry } from './registry.ts'
import { CoreFoundationValues } from './values.ts'

export interface IoKitSourceOptions {
  /** Where the frameworks are; those of the system unless given. */
  readonly libraries?: LibraryPaths | undefined
  /**
   * `poll` (the default) asks the kernel every `pollIntervalMs` and needs no thread. `push` hears of a change within
   * milliseconds and keeps a thread for it. Neither loses a change.
   */
  readonly mode?: 'poll' | 'push' | undefined
  /** 250 unless given. */
  readonly pollIntervalMs?: number | undefined
  readonly clock?: Clock | undefined
  /** How to ask for the system extensions; runs `systemextensionsctl list` unless given. */
  readonly systemExtensions?: RegistrySource['systemExtensions']
}

const systemLibraries: LibraryPaths = {
  ioKit: '/System/Library/Frameworks/IOKit.framework/IOKit',
  coreFoundation: '/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation',
}

/**
 * The running kernel's registry, read through IOKit's C interface without a compiler. Nothing is loaded before the
 * first call. Needs no root and no entitlement.
 */
export function iokitSource(options: IoKitSourceOptions = {}): RegistrySource {
  const { libraries: paths = systemLibraries, clock = systemClock, mode = 'poll', pollIntervalMs = 250 } = options
  if (mode !== 'poll' && mode !== 'push') throw new TypeError(`mode is 'poll' or 'push', not ${String(mode)}`)
  if (!(pollIntervalMs > 0)) throw new TypeError('pollIntervalMs is a number of milliseconds above 0')
  let loading: Promise<LoadedIoKit> | undefined
  const load = (): Promise<LoadedIoKit> => (loading ??= loadIoKit(paths))
  return {
    name: 'iokit',
    async probe({ signal } = {}): Promise<ProbeResult> {
      signal?.throwIfAborted()
      try {
        await load()
        return { usable: true }
      } catch (error) {
        return { usable: false, reason: (error as Error).message, cause: (error as Error).cause }
      }
    },
    open: async () => (await load()).registry,
    async watch(classNames, signal) {
      const { libraries } = await load()
      signal.throwIfAborted()
      if (mode === 'push') return PushWatch.start(libraries, paths, classNames, { clock, signal })
      return new PollWatch(libraries, classNames, { clock, intervalMs: pollIntervalMs })
    },
    systemExtensions: options.systemExtensions ?? listSystemExtensions,
    async thermalLevel() {
      const { libraries } = await load()
      const level = new Uint32Array(1)
      return libraries.IOPMGetThermalWarningLevel(level) === 0 ? level[0] : undefined
    },
    async [Symbol.asyncDispose]() {
      const loaded = await loading?.catch(() => undefined)
      loading = undefined
      loaded?.values[Symbol.dispose]()
    },
  }
}

interface LoadedIoKit {
  readonly libraries: Libraries
  readonly values: CoreFoundationValues
  readonly registry: Registry
}

async function loadIoKit(paths: LibraryPaths): Promise<LoadedIoKit> {
  try {
    const { openLibraries } = await import('../native/libraries.js')
    const libraries = openLibraries(paths)
    const values = new CoreFoundationValues(libraries)
    return { libraries, values, registry: new IoKitRegistry(libraries, values) }
  } catch (cause) {
    throw new EGpuError(EGpuErrorCode.NativeUnavailable, whyNot(paths, cause), { cause, driver: 'macos' })
  }
}

function whyNot(paths: LibraryPaths, cause: unknown): string {
  if (paths === systemLibraries && process.platform !== 'darwin') {
    return `IOKit exists on macOS only and this is ${process.platform}; read a dump with plistSource() instead`
  }
  const what = cause instanceof Error ? cause.message : String(cause)
  return `${paths.ioKit} could not be loaded: ${what}; if koffi's binary is missing, install optional dependencies too`
}

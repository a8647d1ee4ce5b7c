import type { AbortOptions } from '@egpu/core'
import { canMove } from './checkpoint/mapping.ts'
import { SharedHost } from './host/shared-host.ts'
import { librariesOf } from './libraries.ts'
import type { LibraryOptions } from './libraries.ts'

/** Whether programs here can use CUDA, for `routeBackend(device, runtimes)` of core. */
export type CudaRuntime =
  | {
      readonly installed: true
      /** `13.0` */
      readonly version: string
      /** Running programs can be parked (driver 570 and later), and moved between equal GPUs (580 and later). */
      readonly canPark: boolean
      readonly canMove: boolean
    }
  | { readonly installed: false; readonly reason: string }

/** Looks whether CUDA's driver library is there. Opens no GPU and wakes none. */
export async function detectCudaRuntime(options: LibraryOptions & AbortOptions = {}): Promise<CudaRuntime> {
  const host = new SharedHost(librariesOf(options))
  try {
    const { signal } = options
    const { version, canCheckpoint } = await host.use([], (one) => one.call('cuda.version', undefined, { signal }))
    if (version === undefined) return { installed: false, reason: 'the CUDA library does not tell its version' }
    return {
      installed: true,
      version: `${Math.floor(version / 1_000)}.${Math.floor((version % 1_000) / 10)}`,
      canPark: canCheckpoint,
      canMove: canCheckpoint && canMove(version),
    }
  } catch (error) {
    options.signal?.throwIfAborted()
    return { installed: false, reason: error instanceof Error ? error.message : String(error) }
  } finally {
    await host.release()
  }
}

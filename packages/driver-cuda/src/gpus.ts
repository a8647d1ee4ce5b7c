import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { readBoundGpu, readBoundGpus } from './bound-gpus.ts'
import type { BoundGpu } from './bound-gpus.ts'
import type { NativeHost } from './host/native-host.ts'
import type { SharedHost } from './host/shared-host.ts'
import { NvmlReturn, nvmlError } from './nvml/failure.ts'
import { addressOf, asleep, busIdOf, seenGpu } from './nvml/observe.ts'
import type { SeenGpu } from './nvml/observe.ts'

export interface GpusOptions {
  readonly sysfsRoot: string
  readonly wakeSuspended: boolean
}

/** The GPUs that are there, by UUID, and what says that another look would find something else. */
export interface Look {
  readonly gpus: ReadonlyMap<string, SeenGpu>
  readonly signature: string
  readonly driverVersion: string | undefined
}

/**
 * Knows which GPUs NVML may touch. What sysfs calls suspended is never handed to NVML, since taking a handle wakes it;
 * it is listed as it was when it was last awake.
 */
export class Gpus {
  readonly #host: SharedHost
  readonly #options: GpusOptions
  /** Every GPU ever reached, with the registration it was reached in. */
  readonly #known = new Map<string, SeenGpu & { readonly incarnation: string | undefined }>()
  /** While somebody wants a GPU to go, nothing of ours may hold one. */
  #released: { readonly address: string | undefined } | undefined

  constructor(host: SharedHost, options: GpusOptions) {
    this.#host = host
    this.#options = options
  }

  /** What sysfs says now; two that differ mean that something came, went, slept or woke. */
  signature(): string {
    const bound = readBoundGpus(this.#options.sysfsRoot)
    return bound === undefined ? 'unknown' : signatureOf(bound)
  }

  /** Where a known GPU is, unless it may not be touched now. */
  touchable(uuid: string): SeenGpu | 'asleep' | undefined {
    const known = this.#known.get(uuid)
    if (known === undefined) return undefined
    if (this.#released !== undefined && this.#isReleased(this.#bound())) return 'asleep'
    // Reached without sysfs, which then knows nothing of it.
    if (known.incarnation === undefined) return known
    const gpu = readBoundGpu(this.#options.sysfsRoot, addressOf(known.busId))
    if (gpu.incarnation !== known.incarnation) return undefined
    return this.#mayTouch(gpu) ? known : 'asleep'
  }

  /** Uses the host with exactly the GPUs that may be touched now. */
  async use<T>(work: (host: NativeHost) => Promise<T>): Promise<T> {
    const bound = this.#bound()
    return await this.#host.use(this.#busIds(bound), work)
  }

  /** The same for a GPU that was just found touchable: a host that has it already will do. */
  async useFor<T>({ busId }: SeenGpu, work: (host: NativeHost) => Promise<T>): Promise<T> {
    const { reach } = this.#host
    if (reach === 'none' || (reach !== 'all' && !reach.includes(busId.toUpperCase()))) return await this.use(work)
    return await this.#host.use(reach === 'all' ? undefined : reach, work)
  }

  async look({ signal }: AbortOptions): Promise<Look> {
    const bound = this.#bound()
    const signature = bound === undefined ? 'unknown' : signatureOf(bound)
    const busIds = this.#busIds(bound)
    if (this.#isReleased(bound) || busIds?.length === 0) {
      return { gpus: this.#remembered(bound), signature, driverVersion: undefined }
    }
    const { devices, driverVersion } = await this.#host
      .use(busIds, (host) => host.call('nvml.list', undefined, { signal, timeoutMs: lookTimeoutMs }))
      .catch((error: unknown) => {
        signal?.throwIfAborted()
        throw nvmlError(error)
      })
    const gpus = new Map<string, SeenGpu>(this.#remembered(bound?.filter((gpu) => !this.#mayTouch(gpu)) ?? []))
    for (const raw of devices) {
      const seen = seenGpu(raw)
      if (seen !== undefined) {
        const address = addressOf(seen.busId)
        const incarnation = bound?.find((gpu) => gpu.address === address)?.incarnation
        this.#known.set(seen.observation.key, { ...seen, incarnation })
        gpus.set(seen.observation.key, seen)
      } else if (raw.result === NvmlReturn.GpuIsLost || raw.result === NvmlReturn.ResetRequired) {
        const dead = this.#known.get(this.#uuidAt(raw.busId) ?? '')
        const stage = raw.result === NvmlReturn.GpuIsLost ? 'lost' : 'wedged'
        if (dead !== undefined) {
          gpus.set(dead.observation.key, { ...dead, observation: { ...dead.observation, stage } })
        }
      }
    }
    return { gpus, signature, driverVersion }
  }

  /** Memory that nobody has on a GPU that may be touched; `undefined` where NVML does not say. */
  async freeBytes(gpu: SeenGpu, { signal }: AbortOptions): Promise<number | undefined> {
    const { key } = gpu.observation
    try {
      const { memoryTotal, memoryUsed } = await this.useFor(gpu, (host) =>
        host.call('nvml.health', { busId: gpu.busId, withLink: false }, { signal }),
      )
      return memoryTotal === undefined || memoryUsed === undefined ? undefined : memoryTotal - memoryUsed
    } catch (error) {
      signal?.throwIfAborted()
      throw nvmlError(error, key)
    }
  }

  uuidOf(busId: string): string | undefined {
    return this.#uuidAt(busId)
  }

  /**
   * Lets go of every device node and takes none until the returned function is called, or until the GPU at `address`
   * is off the bus.
   */
  async release(address: string | undefined): Promise<() => void> {
    const released = { address }
    this.#released = released
    await this.#host.release()
    return () => {
      if (this.#released === released) this.#released = undefined
    }
  }

  #bound(): readonly BoundGpu[] | undefined {
    return readBoundGpus(this.#options.sysfsRoot)
  }

  #isReleased(bound: readonly BoundGpu[] | undefined): boolean {
    const { address } = this.#released ?? {}
    if (address !== undefined && bound !== undefined && !bound.some((gpu) => gpu.address === address)) {
      this.#released = undefined
    }
    return this.#released !== undefined
  }

  #mayTouch(gpu: BoundGpu): boolean {
    return !gpu.isSuspended || this.#options.wakeSuspended
  }

  /** `undefined` is everything: where sysfs knows nothing, nothing can be known to sleep. */
  #busIds(bound: readonly BoundGpu[] | undefined): readonly string[] | undefined {
    return bound?.filter((gpu) => this.#mayTouch(gpu)).map(busIdOf)
  }

  /** GPUs that are there but may not be asked, as far as they were known before. */
  #remembered(bound: readonly BoundGpu[] | undefined): ReadonlyMap<string, SeenGpu> {
    const gpus = new Map<string, SeenGpu>()
    for (const [uuid, known] of this.#known) {
      const gpu = bound?.find(
        ({ address, incarnation }) => address === addressOf(known.busId) && incarnation === known.incarnation,
      )
      if (bound === undefined) gpus.set(uuid, known)
      else if (gpu !== undefined) gpus.set(uuid, gpu.isSuspended ? asleep(known) : known)
    }
    return gpus
  }

  #uuidAt(busId: string | undefined): string | undefined {
    if (busId === undefined) return undefined
    return [...this.#known].find(([, known]) => addressOf(known.busId) === addressOf(busId))?.[0]
  }
}

/** Initialising a GPU without persistence mode takes seconds. */
const lookTimeoutMs = 9_000

function signatureOf(bound: readonly BoundGpu[]): string {
  return bound.map((gpu) => `${gpu.address} ${gpu.incarnation} ${gpu.isSuspended ? 'asleep' : 'awake'}`).join('; ')
}

export function unknownGpu(key: string): EGpuError {
  return new EGpuError(
    EGpuErrorCode.DeviceNotFound,
    `NVIDIA's driver has no GPU ${JSON.stringify(key.slice(0, 60))} now; list() says which there are`,
    { driver: 'cuda' },
  )
}

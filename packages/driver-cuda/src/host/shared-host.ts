import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { HostConfig, RawEvent } from './protocol.ts'
import { NativeHost } from './native-host.ts'

/** A host that nobody asks anything is closed after this, so that it does not hold the GPUs. */
const lingerMs = 3_000

type SharedConfig = Omit<HostConfig, 'busIds'>

const pool = new Map<string, SharedHost>()

/** The one host that everybody in this process shares who asks for the same. */
export function pooledHost(purpose: 'nvml' | 'cuda', config: SharedConfig): SharedHost {
  const key = JSON.stringify([purpose, config])
  const host = pool.get(key) ?? new SharedHost(config)
  pool.set(key, host)
  return host
}

/** One native host for several callers: started when first asked, closed when nobody needs it any more. */
export class SharedHost {
  #host: NativeHost | undefined
  #busIds: readonly string[] | undefined
  #users = 0
  #keepers = 0
  #linger: ReturnType<typeof setTimeout> | undefined
  #closing: Promise<void> | undefined
  #isClosed = false
  readonly #whenIdle = new Set<() => void>()
  readonly #config: SharedConfig
  readonly #onEvent: (event: RawEvent) => void

  constructor(config: SharedConfig, onEvent: (event: RawEvent) => void = () => undefined) {
    this.#config = config
    this.#onEvent = onEvent
  }

  /** `busIds` are the GPUs that may be touched now; another set means another host, once nobody uses this one. */
  async use<T>(busIds: readonly string[] | undefined, work: (host: NativeHost) => Promise<T>): Promise<T> {
    const host = await this.#enter(busIds)
    try {
      return await work(host)
    } finally {
      this.#leave()
    }
  }

  /** The GPUs that the host there is now may touch; `none` when there is no host. */
  get reach(): readonly string[] | 'all' | 'none' {
    if (this.#host === undefined || this.#host.isOver) return 'none'
    return this.#busIds ?? 'all'
  }

  /** Keeps it open until the returned function is called. */
  keep(): () => void {
    this.#keepers += 1
    let isKept = true
    return () => {
      if (!isKept) return
      isKept = false
      this.#keepers -= 1
      this.#lingerOn()
    }
  }

  /** Ends the host now, so that it holds nothing; the next `use` starts another. */
  async release(): Promise<void> {
    this.#drop()
    await this.#closing
  }

  /** The same for good: whoever is still waiting for a host gets none. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.release()
  }

  /** The same as `release` once those who use it now are done. */
  async releaseWhenIdle(): Promise<void> {
    while (this.#users > 0) await this.#idle()
    await this.release()
  }

  async #enter(busIds: readonly string[] | undefined): Promise<NativeHost> {
    for (;;) {
      if (this.#isClosed) throw new EGpuError(EGpuErrorCode.Closed, 'this driver is closed', { driver: 'cuda' })
      if (this.#host?.isOver === true) this.#drop()
      if (this.#closing !== undefined) await this.#closing
      else if (this.#host === undefined) {
        this.#host = NativeHost.start({ ...this.#config, busIds })
        this.#host.onEvent(this.#onEvent)
        this.#busIds = busIds
      } else if (this.#busIds?.join() === busIds?.join()) {
        this.#users += 1
        return this.#host
      } else if (this.#users > 0) await this.#idle()
      else this.#drop()
    }
  }

  #leave(): void {
    this.#users -= 1
    if (this.#users > 0) return
    for (const resolve of this.#whenIdle) resolve()
    this.#whenIdle.clear()
    this.#lingerOn()
  }

  #idle(): Promise<void> {
    return new Promise((resolve) => void this.#whenIdle.add(resolve))
  }

  #drop(): void {
    clearTimeout(this.#linger)
    this.#linger = undefined
    const host = this.#host
    this.#host = undefined
    if (host === undefined) return
    const closing = Promise.all([this.#closing, host.close()]).then(() => {
      if (this.#closing === closing) this.#closing = undefined
    })
    this.#closing = closing
  }

  #lingerOn(): void {
    if (this.#users > 0 || this.#keepers > 0 || this.#host === undefined) return
    this.#linger ??= setTimeout(() => this.#endLinger(), lingerMs).unref()
    this.#linger.refresh()
  }

  /** It is not stopped while somebody is here, as arming it anew is cheaper. */
  #endLinger(): void {
    if (this.#users === 0 && this.#keepers === 0) this.#drop()
  }
}

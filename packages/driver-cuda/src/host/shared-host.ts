import type { HostConfig, RawEvent } from './protocol.ts'
import { NativeHost } from './native-host.ts'

/** A host that nobody asks anything is closed after this, so that it does not hold the GPUs. */
const lingerMs = 3_000

/** One native host for several callers: started when first asked, closed when nobody needs it any more. */
export class SharedHost {
  #host: NativeHost | undefined
  #busIds: string | undefined
  #users = 0
  #keepers = 0
  #linger: ReturnType<typeof setTimeout> | undefined
  #closing: Promise<void> = Promise.resolve()
  readonly #config: Omit<HostConfig, 'busIds'>
  readonly #onEvent: (event: RawEvent) => void

  constructor(config: Omit<HostConfig, 'busIds'>, onEvent: (event: RawEvent) => void = () => undefined) {
    this.#config = config
    this.#onEvent = onEvent
  }

  /** Whether a process of ours is there now, which may hold device nodes. */
  get isRunning(): boolean {
    return this.#host?.isOver === false
  }

  /** `busIds` are the GPUs that may be touched now; another set means another host. */
  async use<T>(busIds: readonly string[] | undefined, work: (host: NativeHost) => Promise<T>): Promise<T> {
    clearTimeout(this.#linger)
    const wanted = busIds === undefined ? undefined : busIds.join()
    if (this.#host !== undefined && (this.#host.isOver || this.#busIds !== wanted)) this.#drop()
    await this.#closing
    if (this.#host === undefined) {
      this.#host = NativeHost.start({ ...this.#config, busIds })
      this.#host.onEvent(this.#onEvent)
      this.#busIds = wanted
    }
    this.#users += 1
    try {
      return await work(this.#host)
    } finally {
      this.#users -= 1
      this.#lingerOn()
    }
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

  /** Ends the host, so that it holds nothing; the next `use` starts another. */
  async release(): Promise<void> {
    clearTimeout(this.#linger)
    this.#drop()
    await this.#closing
  }

  #drop(): void {
    const host = this.#host
    this.#host = undefined
    if (host !== undefined) this.#closing = Promise.all([this.#closing, host.close()]).then(() => undefined)
  }

  #lingerOn(): void {
    clearTimeout(this.#linger)
    if (this.#users > 0 || this.#keepers > 0 || this.#host === undefined) return
    this.#linger = setTimeout(() => this.#drop(), lingerMs)
    this.#linger.unref()
  }
}

import { createRequire } from 'node:module'
import { isIPv4 } from 'node:net'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { EGpuError, EGpuErrorCode } from '@egpu/core'

/**
 * `alive`: both directions work. `silent`: nothing arrives. `one-way`: the peer's beats arrive, but it says that none of
 * ours do. `unheard`: there never was a beat, as behind a firewall that lets no UDP through.
 */
export type LinkState = 'alive' | 'silent' | 'one-way' | 'unheard'

export interface BeatTarget {
  /** Secret of the two ends of one connection. */
  readonly key: Buffer
  readonly address: string
  readonly port: number
  /** The two ends take different ones. */
  readonly side: 0 | 1
}

export interface LinkWatchOptions {
  /**
   * Some interface, address or carrier changed: look what it was. `withoutCarrier` names those of the followed interfaces
   * that lost it, which the operating system's list of interfaces may still have.
   */
  readonly onNetwork: (withoutCarrier: readonly string[]) => void
  readonly onState: (id: number, state: LinkState) => void
  readonly onFailure: (reason: string) => void
}

/** Looking at all interfaces takes about 50 µs, and at a carrier 20, so this is half a percent of one core. */
const lookEveryMs = 15
const beatEveryMs = 100
/** Twelve beats in a row are lost before a link is given up; with the beat itself that is 1.3 s at most. */
const silentAfterMs = 1_200
const unheardAfterMs = 3_000

type WorkerMessage =
  | { readonly type: 'ready'; readonly port: number }
  | { readonly type: 'network'; readonly withoutCarrier: readonly string[] }
  | { readonly type: 'state'; readonly id: number; readonly state: LinkState }
  | { readonly type: 'failed'; readonly message: string }

/** Hears of pulled cables within milliseconds and of links that carry nothing within 1.5 s, in a thread of its own. */
export class LinkWatch implements AsyncDisposable {
  readonly #worker: Worker
  readonly #ready: Promise<number>
  #lastId = 0

  constructor({ onNetwork, onState, onFailure }: LinkWatchOptions) {
    this.#worker = new Worker(workerUrl(), {
      name: 'egpu-mesh-links',
      workerData: { lookEveryMs, beatEveryMs, silentAfterMs, unheardAfterMs },
      // The parent's loaders and preloads are none of the worker's business.
      execArgv: [],
    })
    this.#ready = new Promise((resolve, reject) => {
      this.#worker.on('message', (message: WorkerMessage) => {
        if (message.type === 'ready') resolve(message.port)
        else if (message.type === 'network') onNetwork(message.withoutCarrier)
        else if (message.type === 'state') onState(message.id, message.state)
        else onFailure(message.message)
      })
      this.#worker.once('exit', () => reject(new EGpuError(EGpuErrorCode.Closed, 'the mesh was closed')))
      this.#worker.once('error', (error) => {
        onFailure(error.message)
        reject(error)
      })
    })
    this.#ready.catch(() => {})
  }

  /** Where peers send their beats to. */
  port(): Promise<number> {
    return this.#ready
  }

  /**
   * Also looks at the carrier of these interfaces itself: Linux takes one off its list of running interfaces up to a second
   * later, if any link of the machine changed shortly before (net/core/link_watch.c).
   */
  follow(names: readonly string[]): void {
    this.#tell({ type: 'follow', names })
  }

  /** Begins to exchange beats; the number names the link in `onState`. */
  add({ key, address, port, side }: BeatTarget): number {
    const id = (this.#lastId += 1)
    // The socket is one for both families.
    const target = isIPv4(address) ? `::ffff:${address}` : address
    this.#tell({ type: 'add', id, key, address: target, port, side })
    return id
  }

  remove(id: number): void {
    this.#tell({ type: 'remove', id })
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #tell(message: object): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker.postMessage(message)
  }
}

/** Found through the manifest's `imports`, which means the same file from the sources and from the built package. */
function workerUrl(): URL {
  return pathToFileURL(createRequire(import.meta.url).resolve('#link-worker'))
}

import { setTimeout as pause } from 'node:timers/promises'
import { EGpuError, EGpuErrorCode, abandonable } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { Assembly } from './assembly.ts'
import type { ChunkRef } from './chunk.ts'
import { hashes, sharedBuffer } from './hash-pool.ts'
import { Lane } from './lane.ts'
import type { BulkLink } from './lane.ts'
import type { BulkAddress } from './server.ts'

/** Where to pull from, and over what. */
export interface PullSource {
  readonly address: BulkAddress
  /** The bytes are shared out over all of them; one that dies is done without, and tried again. */
  readonly links: readonly BulkLink[]
  /** Gets a fresh token from the sender over the control channel; called once for every connection. */
  ticket(options: Required<AbortOptions>): Promise<string>
}

export interface PullOptions extends AbortOptions {
  /**
   * Whether each chunk's SHA-256 is held against its name before it is handed on. Default true. `false` trusts the cable and
   * the sender: for content that is checked anyway later on.
   */
  readonly verify?: boolean | undefined
  /** Connections per link. Default 1: one fills a cable. */
  readonly streamsPerLink?: number | undefined
  /** A link that delivers nothing for so long is given up, and its chunks go to the others. Default 2,000. */
  readonly stallMs?: number | undefined
  /** When no link has delivered anything for so long, the pull fails. Default 15,000. */
  readonly patienceMs?: number | undefined
}

/** Takes a checked chunk. The bytes are its own until it resolves, and not afterwards. */
export type ChunkSink<C extends ChunkRef> = (chunk: C, bytes: Buffer) => Promise<void>

export interface PullReport {
  readonly chunks: number
  /** That came in this pull, of the chunks that are whole now. */
  readonly bytes: number
  /** Bytes by link name, also of chunks that had to be fetched anew. */
  readonly perLink: ReadonlyMap<string, number>
}

/** Beginnings of chunks, from one pull that was broken off to the next. */
export interface Beginnings<C extends ChunkRef> {
  /** Puts what is known of a chunk's beginning into `buffer`; returns how many bytes. */
  recall(chunk: C, buffer: Buffer): number
  /** Called at the end of a pull that failed, for each chunk that came in part. The bytes are its own until it resolves. */
  keep(chunk: C, bytes: Buffer): Promise<void>
}

/**
 * Asked for at once per connection: one that comes in, one or two that lie in the kernels' buffers already, and one that the
 * sender reads meanwhile. With two, sender and receiver wait for each other: a third slower where each has cores of its own.
 */
const depth = 4

/** Chunks that are being checked or written while others come in. */
const settling = 3

/** Before a link that failed is dialled again. */
const retryMs = 250

interface Settings {
  readonly streamsPerLink: number
  readonly stallMs: number
  readonly patienceMs: number
}

/**
 * Pulls `wanted`, in order, into `sink`. Resolves when the sink has taken all. Rejects with the abort reason, with
 * `EGPU_PEER_LOST` or `EGPU_TIMEOUT` when every link is down for longer than `patienceMs`, with `EGPU_PERMISSION_DENIED` when the
 * sender takes no token, with `EGPU_PEER_REFUSED` when it has not what it offered, with `EGPU_MALFORMED_DATA` when it
 * sends something else, or with what the sink threw. Chunks the sink has taken need not be pulled again, and of those that
 * came in part the rest only, when `beginnings` remembers them.
 */
export async function pull<C extends ChunkRef>(
  source: PullSource,
  wanted: Iterable<C>,
  sink: ChunkSink<C>,
  options: PullOptions = {},
  beginnings?: Beginnings<C>,
): Promise<PullReport> {
  options.signal?.throwIfAborted()
  if (source.links.length === 0) throw new TypeError('a pull needs at least one link')
  const run = new Run(source, wanted, sink, options, beginnings)
  return run.result()
}

class Run<C extends ChunkRef> {
  readonly #source: PullSource
  readonly #wanted: Iterator<C>
  readonly #sink: ChunkSink<C>
  readonly #options: Settings
  readonly #beginnings: Beginnings<C> | undefined
  readonly #stop = new AbortController()
  readonly #verify: boolean
  readonly #lanes = new Set<Lane>()
  readonly #free: Buffer[] = []
  readonly #returned: Assembly<C>[] = []
  /** Links that ended, or could not be dialled, when they were last tried. */
  readonly #down = new Set<string>()
  readonly #perLink = new Map<string, number>()
  readonly #busy = new Set<Promise<void>>()
  readonly #done: Promise<void>
  #finish: (result: { readonly error: unknown } | undefined) => void = () => {}
  #slots: number
  #open = 0
  #isDrained = false
  #chunks = 0
  #bytes = 0
  #patience: NodeJS.Timeout | undefined
  #lastFailure: unknown

  constructor(
    source: PullSource,
    wanted: Iterable<C>,
    sink: ChunkSink<C>,
    options: PullOptions,
    beginnings: Beginnings<C> | undefined,
  ) {
    const { verify = true, streamsPerLink = 1, stallMs = 2_000, patienceMs = 15_000 } = options
    this.#source = source
    this.#wanted = wanted[Symbol.iterator]()
    this.#sink = sink
    this.#beginnings = beginnings
    this.#options = { streamsPerLink, stallMs, patienceMs }
    this.#verify = verify
    this.#slots = source.links.length * streamsPerLink * depth + settling
    this.#done = new Promise((resolve, reject) => {
      this.#finish = (result) => (result === undefined ? resolve() : reject(result.error))
    })
    this.#done.catch(() => undefined)
    const { signal } = options
    const abort = (): void => this.#fail(signal?.reason)
    signal?.addEventListener('abort', abort, { once: true })
    this.#stop.signal.addEventListener('abort', () => signal?.removeEventListener('abort', abort), { once: true })
  }

  async result(): Promise<PullReport> {
    const { links } = this.#source
    const { streamsPerLink, patienceMs } = this.#options
    this.#patience = setTimeout(() => {
      // While everything asked for is here and waits for the sink, no link is to blame.
      const isDue = this.#returned.length > 0 || [...this.#lanes].some(({ due }) => due > 0)
      if (this.#busy.size > 0 && !isDue) this.#patience?.refresh()
      else this.#fail(this.#impatience())
    }, patienceMs)
    const streams = links.flatMap((link) => Array.from({ length: streamsPerLink }, () => this.#keep(link)))
    void Promise.all(streams).then(() => this.#fail(this.#lastFailure ?? this.#impatience()))
    try {
      await this.#done
    } finally {
      clearTimeout(this.#patience)
      this.#stop.abort(new EGpuError(EGpuErrorCode.Closed, 'this pull is over'))
      await Promise.all(streams)
      await Promise.all(this.#busy)
      for (const { chunk, bytes } of this.#returned) {
        if (bytes.byteLength > 0) await this.#beginnings?.keep(chunk, bytes)
      }
    }
    return { chunks: this.#chunks, bytes: this.#bytes, perLink: this.#perLink }
  }

  /** Keeps one connection over a link for as long as the pull runs and the sender does not refuse. */
  async #keep(link: BulkLink): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      let lane: Lane | undefined
      let end: unknown
      try {
        const token = await abandonable(this.#source.ticket({ signal }), signal)
        lane = await Lane.open({
          link,
          address: this.#source.address,
          token,
          stallMs: this.#options.stallMs,
          signal,
          received: (task, byteLength) => this.#received(link, task as Assembly<C>, byteLength),
        })
        this.#lanes.add(lane)
        this.#down.delete(link.name)
        this.#feed()
        end = await lane.ended
      } catch (error) {
        end = error
      }
      this.#down.add(link.name)
      if (lane !== undefined) {
        this.#lanes.delete(lane)
        this.#takeBack(lane)
      }
      this.#feed()
      if (signal.aborted) return
      this.#lastFailure = end
      if (EGpuError.is(end, EGpuErrorCode.MalformedData) || EGpuError.is(end, EGpuErrorCode.PeerRefused)) {
        this.#fail(end)
      }
      if (EGpuError.is(end, EGpuErrorCode.PermissionDenied)) return
      await pause(retryMs, undefined, { signal }).catch(() => undefined)
    }
  }

  /** What a lane owes when it ends is asked for elsewhere, of a chunk that came in part the rest. */
  #takeBack(lane: Lane): void {
    for (const { task, byteLength } of lane.takeDue()) {
      const assembly = task as Assembly<C>
      this.#count(lane.link, assembly, byteLength)
      this.#returned.push(assembly)
    }
  }

  #feed(): void {
    if (this.#stop.signal.aborted) return
    while (this.#feedOne());
    if (this.#isDrained && this.#open === 0) this.#finish(undefined)
  }

  /** Gives the next chunk to the lane with the least to do among those that may have one. */
  #feedOne(): boolean {
    const hungry = [...this.#lanes].filter(({ isOpen, due }) => isOpen && due < depth).sort((a, b) => a.due - b.due)
    for (const lane of hungry) {
      const task = this.#next(lane.link.name)
      if (task === undefined) continue
      if (!lane.takesParts) task.clear()
      lane.request(task)
      return true
    }
    return false
  }

  #next(link: string): Assembly<C> | undefined {
    const others = this.#source.links.map(({ name }) => name).filter((name) => !this.#down.has(name))
    const again = this.#returned.findIndex((task) => task.suits(link, others))
    if (again >= 0) return this.#returned.splice(again, 1)[0]
    if (this.#isDrained || (this.#free.length === 0 && this.#slots === 0)) return undefined
    const next = this.#wanted.next()
    if (next.done === true) {
      this.#isDrained = true
      return undefined
    }
    this.#open += 1
    const chunk = next.value
    const buffer = this.#buffer(chunk.byteLength)
    return new Assembly(chunk, buffer, this.#beginnings?.recall(chunk, buffer) ?? 0)
  }

  /** Buffers go round; one that is too small for a chunk is replaced. */
  #buffer(byteLength: number): Buffer {
    const known = this.#free.pop()
    if (known === undefined) this.#slots -= 1
    return known !== undefined && known.byteLength >= byteLength ? known : sharedBuffer(byteLength)
  }

  #count({ name }: BulkLink, task: Assembly<C>, byteLength: number): void {
    task.carried(name, byteLength)
    if (byteLength > 0) this.#perLink.set(name, (this.#perLink.get(name) ?? 0) + byteLength)
  }

  #received(link: BulkLink, task: Assembly<C>, byteLength: number): void {
    this.#patience?.refresh()
    this.#count(link, task, byteLength)
    const work = this.#settle(task).catch((error: unknown) => this.#fail(error))
    this.#busy.add(work)
    void work.then(() => this.#busy.delete(work))
    this.#feed()
  }

  async #settle(task: Assembly<C>): Promise<void> {
    const { chunk, buffer, bytes } = task
    // Also once the pull is over: what came in whole is kept, and needs not travel again.
    const sha256 = this.#verify ? await hashes.sha256(bytes) : undefined
    if (sha256 !== undefined && sha256 !== chunk.id) {
      task.startAfresh()
      this.#returned.push(task)
      this.#feed()
      return
    }
    await this.#sink(chunk, bytes)
    this.#patience?.refresh()
    this.#chunks += 1
    this.#bytes += task.travelled
    this.#open -= 1
    this.#free.push(buffer)
    this.#feed()
  }

  #fail(error: unknown): void {
    if (this.#stop.signal.aborted) return
    this.#finish({ error })
    this.#stop.abort(error)
  }

  #impatience(): EGpuError {
    const { links } = this.#source
    const names = links.map(({ name }) => name).join(', ')
    const last = this.#lastFailure instanceof Error ? `: ${this.#lastFailure.message}` : ''
    const message = `nothing came over ${names} for ${this.#options.patienceMs} ms${last}; what came before is kept`
    return new EGpuError(EGpuErrorCode.PeerLost, message, { cause: this.#lastFailure })
  }
}

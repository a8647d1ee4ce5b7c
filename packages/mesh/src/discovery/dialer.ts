import type { PeerConnection } from '../control/peer-connection.ts'

export interface DialerTarget {
  readonly host: string
  readonly port: number
  /** Whom to expect; anybody paired when not given. */
  readonly peerId: string | undefined
  /** Interface it was seen on; `undefined` for an address somebody wrote down. */
  readonly interfaceName: string | undefined
}

export interface DialerOptions {
  readonly nodeId: string
  readonly dial: (target: DialerTarget, signal: AbortSignal) => Promise<PeerConnection>
  /** The open connection that makes dialling needless, if there is one. */
  readonly connected: (target: DialerTarget, peerId: string | undefined) => PeerConnection | undefined
}

/**
 * Both sides may dial, else a pair in which only one side may and cannot would never meet; the one with the lower id lets
 * the other begin.
 */
const headStartMs = 150
const backoffMs = { first: 250, most: 15_000 } as const
/** Somebody who was heard of but cannot be reached is forgotten, until heard of again. */
const mostFailures = 8
/**
 * Of those that were heard of: on one interface, so that a liar on one cable keeps nobody on another from being reached, and at one
 * address, so that it needs many of them to keep others on its own cable.
 */
const mostTargets = { perInterface: 64, perAddress: 8 } as const

interface Entry {
  readonly target: DialerTarget
  readonly stop: AbortController
  failures: number
  wake: (() => void) | undefined
}

/** Keeps trying to have a connection to everyone it was told of, with growing pauses. */
export class Dialer {
  readonly #options: DialerOptions
  readonly #entries = new Map<string, Entry>()

  constructor(options: DialerOptions) {
    this.#options = options
  }

  /** Begins, or tries again at once if it is at it already. */
  want(key: string, target: DialerTarget): void {
    const known = this.#entries.get(key)
    if (known !== undefined) {
      // An announcement is no reason to hurry if the last attempts failed: it may be a lie.
      if (known.failures === 0) known.wake?.()
      return
    }
    if (target.interfaceName !== undefined && !this.#hasRoom(target)) return
    const entry: Entry = { target, stop: new AbortController(), failures: 0, wake: undefined }
    this.#entries.set(key, entry)
    void this.#pursue(key, entry)
  }

  /** Its interface went away: what was seen on it is forgotten, what was written down stays. */
  forgetInterface(interfaceName: string): void {
    for (const [key, entry] of this.#entries)
      if (entry.target.interfaceName === interfaceName) {
        this.#entries.delete(key)
        entry.stop.abort()
      }
  }

  /** Something changed for the better: everyone is tried again now. */
  hurry(): void {
    for (const entry of this.#entries.values()) {
      entry.failures = 0
      entry.wake?.()
    }
  }

  close(): void {
    for (const entry of this.#entries.values()) entry.stop.abort()
    this.#entries.clear()
  }

  #hasRoom({ host, interfaceName }: DialerTarget): boolean {
    const near = [...this.#entries.values()].filter(({ target }) => target.interfaceName === interfaceName)
    const there = near.filter(({ target }) => target.host === host)
    return near.length < mostTargets.perInterface && there.length < mostTargets.perAddress
  }

  async #pursue(key: string, entry: Entry): Promise<void> {
    const { target, stop } = entry
    const { nodeId, connected, dial } = this.#options
    const givenUp = new Promise<void>((resolve) =>
      stop.signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    let peerId = target.peerId
    if (peerId !== undefined && nodeId < peerId) await pause(entry, headStartMs)
    while (!stop.signal.aborted) {
      const open = connected(target, peerId)
      if (open !== undefined) {
        await Promise.race([open.closed, givenUp])
        // What ended it is often still going on; the first attempt is quick all the same.
        await pause(entry, backoffMs.first)
        continue
      }
      try {
        peerId = (await dial(target, stop.signal)).peerId
        entry.failures = 0
      } catch {
        entry.failures += 1
        if (target.interfaceName !== undefined && entry.failures >= mostFailures) break
        await pause(entry, Math.min(backoffMs.most, backoffMs.first * 2 ** (entry.failures - 1)))
      }
    }
    if (this.#entries.get(key) === entry) this.#entries.delete(key)
  }
}

/** Ends early when the entry is woken or given up. */
function pause(entry: Entry, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      entry.stop.signal.removeEventListener('abort', end)
      entry.wake = undefined
      resolve()
    }
    const timer = setTimeout(end, ms)
    timer.unref()
    entry.wake = end
    entry.stop.signal.addEventListener('abort', end, { once: true })
    if (entry.stop.signal.aborted) end()
  })
}

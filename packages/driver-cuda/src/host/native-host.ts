import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { EGpuError, EGpuErrorCode, abandonable, systemClock } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { HostCalls, HostConfig, HostReply, RawEvent } from './protocol.ts'

/** The library answered an error; `result` is its own number. */
export class NvmlFailure extends Error {
  readonly result: number

  constructor(message: string, result: number) {
    super(message)
    this.result = result
  }
}

export interface CallOptions extends AbortOptions {
  /** After this the host is given up, since a call into a driver cannot be taken back. Default 5,000. */
  readonly timeoutMs?: number | undefined
}

interface Pending {
  readonly timer: ReturnType<typeof setTimeout>
  resolve(value: unknown): void
  reject(error: unknown): void
}

const endingMs = 2_000

/**
 * A process that calls into NVIDIA's libraries for us. A call that hangs is left behind together with its process; an
 * idle host does not keep the application alive.
 */
export class NativeHost implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  readonly #exited: Promise<void>
  readonly #listeners = new Set<(event: RawEvent) => void>()
  #nextId = 1
  #isOver = false

  static start(config: HostConfig): NativeHost {
    return new NativeHost(config)
  }

  private constructor(config: HostConfig) {
    // A session of its own: Ctrl-C in the terminal must not end it in the middle of a step.
    this.#child = fork(hostFile(), [JSON.stringify(config), String(process.pid)], {
      detached: true,
      // It lives for days beside the application: what it throws away is collected early.
      execArgv: ['--max-semi-space-size=1'],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    this.#exited = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.#end(`ended with ${signal ?? `code ${code}`}`)
        resolve()
      })
      this.#child.once('error', (error) => {
        this.#end(`could not be started: ${error.message}`)
        resolve()
      })
    })
    this.#child.on('message', (reply: HostReply) => this.#take(reply))
    this.#child.unref()
    this.#child.channel?.unref()
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** It ended, crashed or was given up; make another. */
  get isOver(): boolean {
    return this.#isOver
  }

  onEvent(listener: (event: RawEvent) => void): void {
    this.#listeners.add(listener)
  }

  /**
   * Rejects with `NvmlFailure` when NVML answers an error, `EGPU_NATIVE_UNAVAILABLE` when the library is not to be had
   * or crashed, `EGPU_TIMEOUT` when it hangs. An abort does not end the call, only the waiting.
   */
  async call<K extends keyof HostCalls>(
    call: K,
    args: HostCalls[K][0],
    { signal, timeoutMs = 5_000 }: CallOptions = {},
  ): Promise<HostCalls[K][1]> {
    signal?.throwIfAborted()
    if (this.#isOver) throw unavailable('has ended')
    const id = this.#nextId
    this.#nextId += 1
    const timer = setTimeout(() => this.#giveUp(call, timeoutMs), timeoutMs)
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#pending.set(id, { timer, resolve, reject })
      this.#child.channel?.ref()
      this.#child.send({ id, call, args }, (error) => {
        // It is dying; that it has ended is told later.
        if (error !== null) this.#end(`cannot be reached: ${error.message}`)
      })
    })
    return (await abandonable(answer, signal)) as HostCalls[K][1]
  }

  /** Ends it at once, whatever it is doing. What the target of a checkpoint call does by itself goes on. */
  abandon(): void {
    this.#child.kill('SIGKILL')
    this.#end('was given up')
  }

  /** Lets it finish, then ends it. A host that does not end is given up. Calling it twice is fine. */
  async close(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect()
    this.#end('was closed')
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), endingMs)
    // One in an uninterruptible system call does not even die: it is left behind.
    const late = new AbortController()
    await Promise.race([this.#exited, systemClock.sleep(endingMs * 2, { signal: late.signal }).catch(() => undefined)])
    clearTimeout(timer)
    late.abort()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #giveUp(call: string, timeoutMs: number): void {
    this.abandon()
    this.#rejectAll(
      new EGpuError(
        EGpuErrorCode.Timeout,
        `NVIDIA's driver has not answered ${call} within ${timeoutMs} ms; the call was left behind, and the GPU may be wedged`,
        { driver: 'cuda' },
      ),
    )
  }

  #take(reply: HostReply): void {
    if ('event' in reply) {
      for (const listener of this.#listeners) listener(reply.event)
      return
    }
    const pending = this.#settle(reply.id)
    if (!('error' in reply)) {
      pending?.resolve(reply.value)
      return
    }
    const { message, nvmlResult } = reply.error
    pending?.reject(nvmlResult === undefined ? unusable(message) : new NvmlFailure(message, nvmlResult))
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id)
    clearTimeout(pending?.timer)
    this.#pending.delete(id)
    if (this.#pending.size === 0) this.#child.channel?.unref()
    return pending
  }

  #end(how: string): void {
    if (this.#isOver) return
    this.#isOver = true
    // A timeout that gave it up says more, and says it right after this.
    queueMicrotask(() => this.#rejectAll(unavailable(how)))
  }

  #rejectAll(error: EGpuError): void {
    for (const id of this.#pending.keys()) this.#settle(id)?.reject(error)
  }
}

function unavailable(what: string): EGpuError {
  return new EGpuError(EGpuErrorCode.NativeUnavailable, `the process that talks to NVIDIA's libraries ${what}`, {
    driver: 'cuda',
  })
}

/** What the process itself says of the libraries: that they are not there, too old, or for another architecture. */
function unusable(why: string): EGpuError {
  return new EGpuError(
    EGpuErrorCode.NativeUnavailable,
    `NVIDIA's libraries cannot be used here: ${why}. They come with NVIDIA's driver; parking needs 570 or newer.`,
    { driver: 'cuda' },
  )
}

/** Found through the manifest's `imports`: the same file from the sources and from the built package. */
function hostFile(): string {
  return createRequire(import.meta.url).resolve('#native-host')
}

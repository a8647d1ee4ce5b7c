import type { DriverEvent, DriverSnapshot } from '@egpu/core/driver'
import type { Vm } from './vm.ts'

/** One event of a watch in the guest, with the guest's time. */
export interface Seen {
  readonly atMs: number
  readonly event: DriverEvent
}

/** Generous: two emulated processors on two busy ones. */
const patienceMs = 300_000

/** A watch that runs in the guest, read from outside. */
export class GuestWatch {
  readonly seen: Seen[] = []
  readonly crashes: string[] = []
  readonly #vm: Vm
  readonly #name: string
  readonly #off: () => void
  #notify: (() => void) | undefined
  first!: Extract<DriverEvent, { type: 'resync' }>
  source!: { readonly kind: string }

  static async start(vm: Vm, name: string, options: Readonly<Record<string, unknown>> = {}): Promise<GuestWatch> {
    const watch = new GuestWatch(vm, name)
    const { first, source } = await vm.call<Pick<GuestWatch, 'first' | 'source'>>('watch', name, options)
    watch.first = first
    watch.source = source
    return watch
  }

  private constructor(vm: Vm, name: string) {
    this.#vm = vm
    this.#name = name
    this.#off = vm.onEvent((message) => {
      if (message.event === 'crash') this.crashes.push(String(message['error']))
      if (message.event !== 'driver' || message['watch'] !== name) return
      this.seen.push({ atMs: message['atMs'] as number, event: message['driverEvent'] as DriverEvent })
      this.#notify?.()
    })
  }

  /** Waits for an event from position `from` on. */
  async until(what: string, wanted: (event: DriverEvent) => boolean, from = 0): Promise<Seen> {
    const deadline = Date.now() + patienceMs
    for (;;) {
      const found = this.seen.slice(from).find(({ event }) => wanted(event))
      if (found !== undefined) return found
      const leftMs = deadline - Date.now()
      if (leftMs <= 0) throw new Error(`no ${what} within ${patienceMs / 1000} s; seen: ${this.text(from)}`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs)
        this.#notify = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }

  /** Waits for a GPU that is ready and was not there before; answers its key. */
  async untilReady(from = 0): Promise<string> {
    const { event } = await this.until(
      'ready GPU',
      (one) => one.type === 'device-observed' && one.device.stage === 'ready',
      from,
    )
    return event.type === 'device-observed' ? event.device.key : ''
  }

  /** Forgets what was seen. */
  clear(): void {
    this.seen.length = 0
  }

  /** Types in order, with keys, for comparing. */
  list(from = 0): string[] {
    return this.seen.slice(from).map(({ event }) => {
      const key = event.type === 'device-observed' ? event.device.key : 'key' in event ? event.key : undefined
      return key === undefined ? event.type : `${event.type} ${key}`
    })
  }

  /** What is said of devices from the first sign that one goes: what was left to say of the plugging may come before. */
  partings(): string[] {
    const told = this.list().filter((line) => line.startsWith('device-'))
    return told.slice(told.findIndex((line) => !line.startsWith('device-observed')))
  }

  text(from = 0): string {
    return this.list(from).join(', ') || 'nothing'
  }

  async stop(): Promise<void> {
    this.#off()
    await this.#vm.call('unwatch', this.#name)
  }
}

/** Waits until a snapshot of the guest is as wanted. */
export async function untilListed(
  vm: Vm,
  what: string,
  wanted: (snapshot: DriverSnapshot) => boolean,
): Promise<DriverSnapshot> {
  const deadline = Date.now() + patienceMs
  for (;;) {
    const snapshot = await vm.call<DriverSnapshot>('list')
    if (wanted(snapshot)) return snapshot
    if (Date.now() > deadline) throw new Error(`never listed: ${what}; last: ${JSON.stringify(snapshot.devices)}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

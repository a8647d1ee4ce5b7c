import assert from 'node:assert/strict'
import type { DriverEvent } from '../driver/events.ts'
import { within } from './within.ts'

/** Reads a watch with a deadline on every wait, and keeps what was read and which devices are there by it. */
export class EventReader {
  readonly seen: DriverEvent[] = []
  /** Keys of the devices that are there, as far as was read. */
  readonly present: Set<string> = new Set<string>()
  readonly #iterator: AsyncIterator<DriverEvent>
  readonly #patienceMs: number

  constructor(source: AsyncIterable<DriverEvent>, patienceMs: number) {
    this.#iterator = source[Symbol.asyncIterator]()
    this.#patienceMs = patienceMs
  }

  async next(what: string = 'the next event'): Promise<IteratorResult<DriverEvent, unknown>> {
    const result = await within(this.#patienceMs, what, this.#iterator.next())
    if (result.done !== true) this.#note(result.value)
    return result
  }

  /** Reads on until `wanted` holds of an event and returns it; fails when the watch ends or falls silent first. */
  async until(what: string, wanted: (event: DriverEvent) => boolean): Promise<DriverEvent> {
    for (;;) {
      const result = await this.next(`waiting for ${what}`)
      assert(result.done !== true, `the watch ended before ${what}`)
      if (wanted(result.value)) return result.value
    }
  }

  /** Reads the first event, which has to be the initial `resync`. */
  async start(): Promise<Extract<DriverEvent, { type: 'resync' }>> {
    const { value, done } = await this.next('the initial resync')
    assert(done !== true, 'the watch ended before its first event')
    assert.equal(value.type, 'resync', 'the first event is a resync')
    assert(value.type === 'resync')
    return value
  }

  /** Reads on until the device is there, or gone, by what was read. */
  async untilPresent(key: string, wanted: boolean): Promise<void> {
    while (this.present.has(key) !== wanted) {
      const result = await this.next(`${key} ${wanted ? 'arriving' : 'leaving'} in the events`)
      assert(result.done !== true, `the watch ended while ${key} was ${wanted ? 'missing' : 'still there'}`)
    }
  }

  async return(): Promise<void> {
    await this.#iterator.return?.()
  }

  #note(event: DriverEvent): void {
    this.seen.push(event)
    if (event.type === 'resync') {
      this.present.clear()
      for (const { key } of event.snapshot.devices) this.present.add(key)
    }
    if (event.type === 'device-observed') this.present.add(event.device.key)
    if (event.type === 'device-removed' || event.type === 'device-lost') this.present.delete(event.key)
  }
}

import { fromProperties } from './uevent.ts'
import type { Uevent } from './uevent.ts'

/** Longer than any property the kernel can send (its whole environment has 2048 bytes); udev adds to it. */
const longestLine = 64 * 1024
const mostProperties = 1024

/**
 * Reads what `udevadm monitor --property` prints, in whatever pieces it arrives: a line that names the event, its
 * properties, a blank line. Lines that are none of these are skipped.
 */
export class UdevadmText {
  #rest = ''
  #skipping = false
  #block: Map<string, string> | undefined

  /** Feeds the next piece of output; returns the events that are complete now. */
  push(chunk: string): Uevent[] {
    const events: Uevent[] = []
    const lines = (this.#rest + chunk).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      if (this.#skipping) this.#skipping = false
      else this.#readLine(line, events)
    }
    if (this.#rest.length > longestLine) {
      this.#rest = ''
      this.#skipping = true
    }
    return events
  }

  #readLine(line: string, events: Uevent[]): void {
    if (/^(?:KERNEL|UDEV) *\[/.test(line)) {
      this.#block = new Map()
      return
    }
    if (this.#block === undefined) return
    if (line === '') {
      const event = fromProperties(this.#block)
      this.#block = undefined
      if (event !== undefined) events.push(event)
      return
    }
    const equals = line.indexOf('=')
    if (equals > 0 && this.#block.size < mostProperties) this.#block.set(line.slice(0, equals), line.slice(equals + 1))
  }
}

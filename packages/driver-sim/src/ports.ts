import type { ThunderboltSpeed } from '@egpu/core'
import type { HostPorts } from './enclosure.ts'

/** The host's Thunderbolt ports: two per domain, named as Linux does, as many as are needed. */
export class HostPortList implements HostPorts {
  readonly speed: ThunderboltSpeed
  readonly #taken = new Set<string>()
  /** Every port before this one is taken. */
  #firstFree = 0

  constructor(speed: ThunderboltSpeed) {
    this.speed = speed
  }

  take(wanted: string | undefined): string {
    const port = wanted ?? this.#anyFree()
    if (this.#taken.has(port)) throw new TypeError(`another enclosure is plugged into ${port}`)
    this.#taken.add(port)
    return port
  }

  free(port: string): void {
    this.#taken.delete(port)
    this.#firstFree = 0
  }

  #anyFree(): string {
    while (this.#taken.has(nameOf(this.#firstFree))) this.#firstFree += 1
    return nameOf(this.#firstFree)
  }
}

/** Adapters 1 and 3 of a host router are the first lanes of its two ports. */
function nameOf(index: number): string {
  return `domain${index >> 1}/port${index % 2 === 0 ? 1 : 3}`
}

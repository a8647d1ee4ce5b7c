import type { EGpuError } from '@egpu/core'
import type { AdapterSeen } from '../adapters/adapter-seen.ts'
import type { AdapterSource } from '../adapters/source.ts'
import { holdDevice, retireLostDevices } from '../device/held-devices.ts'
import type { HeldDevice } from '../device/held-devices.ts'
import type { DescribeDevice } from '../device/open-target.ts'
import { incompatibility } from './compatibility.ts'
import { Prepared } from './prepared.ts'

export interface Successor {
  readonly held: HeldDevice
  /** The adapter it was opened on. */
  readonly seen: AdapterSeen
  readonly prepared: Prepared
}

type OnRefusal = (adapter: string, error: EGpuError) => void

/** Finds the next device: on the same adapter if it is still there, else on another GPU, else on the CPU. */
export class SuccessorFinder {
  readonly #source: AdapterSource
  readonly #describe: DescribeDevice
  #descriptor: GPUDeviceDescriptor | undefined
  #last: AdapterSeen | undefined

  constructor(source: AdapterSource, descriptor: GPUDeviceDescriptor | DescribeDevice | undefined) {
    this.#source = source
    this.#describe = typeof descriptor === 'function' ? descriptor : () => descriptor ?? {}
  }

  /** The next look is for the best adapter there is, whichever was the last. */
  forget(): void {
    this.#last = undefined
  }

  /** `undefined` when there is none; `onRefusal` hears why each adapter was passed over. */
  async find(onRefusal: OnRefusal): Promise<Successor | undefined> {
    await retireLostDevices()
    const last = this.#last
    // Most losses are resets: asking for the same one spares a look at all.
    const again = last === undefined ? undefined : await this.#open(last, onRefusal)
    if (again !== undefined) return again
    const seen = await this.#source.look({})
    const successor = await this.#firstOf(
      [...seen].sort((a, b) => Number(a.software) - Number(b.software)),
      onRefusal,
    )
    if (successor !== undefined) this.take(successor.seen)
    return successor
  }

  /**
   * A device to have beside the one in use: on another GPU, which a cable that is pulled leaves there, else on the same
   * adapter once more, which helps when it is reset.
   */
  async findSpare(): Promise<Successor | undefined> {
    const last = this.#last
    if (last === undefined) return undefined
    await retireLostDevices()
    const seen = await this.#source.look({})
    const others = seen.filter(({ key, software }) => key !== last.key && !software)
    return await this.#firstOf([...others, last], () => {})
  }

  /** A device of this adapter is the one in use from here on. */
  take(seen: AdapterSeen): void {
    this.#last = seen
  }

  async #firstOf(candidates: readonly AdapterSeen[], onRefusal: OnRefusal): Promise<Successor | undefined> {
    for (const one of candidates) {
      const successor = await this.#open(one, onRefusal)
      if (successor !== undefined) return successor
    }
    return undefined
  }

  async #open(seen: AdapterSeen, onRefusal: OnRefusal): Promise<Successor | undefined> {
    const fresh = await seen.request?.()
    if (fresh === undefined) return undefined
    const descriptor = this.#descriptor ?? this.#describe(fresh.adapter)
    const refusal = incompatibility(fresh.adapter, seen.name, descriptor)
    if (refusal !== undefined) {
      onRefusal(seen.name, refusal)
      return undefined
    }
    let device: GPUDevice
    try {
      device = await fresh.adapter.requestDevice(descriptor)
    } catch (error) {
      if (error instanceof TypeError) throw error
      // It vanished between request and use.
      return undefined
    }
    this.#descriptor = descriptor
    return { held: holdDevice(device, fresh), seen, prepared: new Prepared(device) }
  }
}

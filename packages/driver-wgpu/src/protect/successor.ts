import type { EGpuError } from '@egpu/core'
import type { AdapterSeen } from '../adapters/adapter-seen.ts'
import type { AdapterSource } from '../adapters/source.ts'
import { holdDevice, retireLostDevices } from '../device/held-devices.ts'
import type { HeldDevice } from '../device/held-devices.ts'
import type { DescribeDevice } from '../device/open-target.ts'
import { incompatibility } from './compatibility.ts'

export interface Successor {
  readonly held: HeldDevice
  readonly name: string
  /** It runs on the CPU. */
  readonly isSoftware: boolean
}

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
  async find(onRefusal: (adapter: string, error: EGpuError) => void): Promise<Successor | undefined> {
    await retireLostDevices()
    const last = this.#last
    // Most losses are resets: asking for the same one spares a look at all.
    const again = last === undefined ? undefined : await this.#open(last, onRefusal)
    if (again !== undefined) return again
    const seen = await this.#source.look({})
    for (const one of [...seen].sort((a, b) => Number(a.software) - Number(b.software))) {
      const successor = await this.#open(one, onRefusal)
      if (successor !== undefined) return successor
    }
    return undefined
  }

  async #open(
    seen: AdapterSeen,
    onRefusal: (adapter: string, error: EGpuError) => void,
  ): Promise<Successor | undefined> {
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
    this.#last = seen
    return { held: holdDevice(device, fresh), name: seen.name, isSoftware: seen.software }
  }
}

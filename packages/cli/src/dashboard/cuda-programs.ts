import { abandonable } from '@egpu/core'
import type { EGpuDevice, EGpuManager, Guest, LeaveResult } from '@egpu/core'
import type { CudaGuest, CudaOptions, CudaProcess, Leaving } from '@egpu/driver-cuda'
import { stateText } from '../output/cuda-text.ts'
import { deviceName } from '../output/device-text.ts'
import { plain } from '../output/text.ts'
import type { ProgramsView, ProgramView } from './protocol.ts'

/** While somebody watches, NVIDIA's libraries are asked this often; they are let go of in between. */
const askEveryMs = 5_000

/** A command line is shown up to here. */
const mostCharacters = 200

type LeaveOptions = Parameters<Guest['leave']>[1]

const none: ProgramsView = { programs: [], problem: undefined }

/**
 * The programs of others on this machine's NVIDIA GPUs. They are looked up only while somebody watches and a GPU that
 * NVIDIA's driver has is awake: a look opens its device node, which keeps it from falling asleep. It is also the guest
 * that has them leave before a GPU is ejected.
 */
export class CudaPrograms implements Guest, AsyncDisposable {
  readonly name = 'cuda'
  readonly #manager: EGpuManager
  readonly #options: CudaOptions
  readonly #stop: AbortController = new AbortController()
  /** NVIDIA's GPUs by UUID, as they were last found. */
  #gpus: ReadonlyMap<string, { readonly address: string | undefined; readonly name: string }> = new Map()
  #view: ProgramsView = none
  #asking: Promise<void> | undefined
  #askedAt = Number.NEGATIVE_INFINITY
  /** A GPU that is being ejected, in its present incarnation: nothing of ours may hold it. */
  #leaving: Pick<EGpuDevice, 'id' | 'epoch'> | undefined
  #guest: CudaGuest | undefined

  constructor(manager: EGpuManager, options: CudaOptions = {}) {
    this.#manager = manager
    this.#options = options
  }

  /** What is known now; has it looked up afresh when that is old. */
  now(): ProgramsView {
    if (!this.#manager.devices.some(runsCuda)) return none
    const { id = '', epoch } = this.#leaving ?? {}
    if (this.#manager.find(id)?.epoch !== epoch) this.#leaving = undefined
    const isDue = performance.now() - this.#askedAt >= askEveryMs
    if (isDue && this.#leaving === undefined && !this.#stop.signal.aborted) this.#asking ??= this.#ask()
    return this.#view
  }

  /** What ejecting a GPU would mean for the programs on it. For a while afterwards nothing of ours holds the GPU. */
  async plan(device: EGpuDevice, signal: AbortSignal): Promise<readonly Leaving[]> {
    await abandonable(this.#asking ?? Promise.resolve(), signal)
    try {
      const uuid = await this.#uuidOf(device, signal)
      if (uuid === undefined) return []
      const { planCudaLeave } = await import('@egpu/driver-cuda')
      return await planCudaLeave(uuid, { ...this.#options, signal })
    } finally {
      this.#askedAt = performance.now()
    }
  }

  async leave(device: EGpuDevice, options: LeaveOptions): Promise<LeaveResult> {
    this.#leaving = device
    let left = false
    try {
      await abandonable(this.#asking ?? Promise.resolve(), options.signal)
      const answer = await this.#leave(device, options)
      ;({ left } = answer)
      return answer
    } finally {
      if (!left) this.#leaving = undefined
    }
  }

  async stay(device: EGpuDevice): Promise<void> {
    this.#leaving = undefined
    await this.#guest?.stay?.(device)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await this.#asking
    // Who was called back has to run again before we end.
    await this.#guest?.settled()
  }

  async #leave(device: EGpuDevice, options: LeaveOptions): Promise<LeaveResult> {
    const uuid = await this.#uuidOf(device, options.signal)
    if (uuid === undefined) return { left: true, moved: [] }
    const { cudaGuest } = await import('@egpu/driver-cuda')
    this.#guest ??= cudaGuest(this.#options)
    return await this.#guest.leave({ ...device, identity: { ...device.identity, uuid } }, options)
  }

  async #ask(): Promise<void> {
    try {
      const { listCudaProcesses } = await import('@egpu/driver-cuda')
      const processes = await listCudaProcesses({ ...this.#options, signal: this.#stop.signal })
      const isStrange = ({ memory }: CudaProcess): boolean => memory.some(({ uuid }) => !this.#gpus.has(uuid))
      if (processes.some(isStrange)) await this.#findGpus(this.#stop.signal)
      this.#view = { programs: processes.map((process) => this.#viewOf(process)), problem: undefined }
    } catch (error) {
      this.#view = { programs: [], problem: plain(error instanceof Error ? error.message : String(error)) }
    } finally {
      this.#askedAt = performance.now()
      this.#asking = undefined
    }
  }

  /** Drivers that see the GPU from outside know its place on the bus; NVIDIA's programs know it by UUID. */
  async #uuidOf(device: EGpuDevice, signal: AbortSignal | undefined): Promise<string | undefined> {
    if (!runsCuda(device)) return undefined
    const { uuid, pciAddress } = device.identity
    if (uuid !== undefined) return uuid
    await this.#findGpus(signal)
    return [...this.#gpus].find(([, gpu]) => gpu.address === pciAddress)?.[0]
  }

  async #findGpus(signal: AbortSignal | undefined): Promise<void> {
    const { cudaDriver } = await import('@egpu/driver-cuda')
    // Closed before anybody looks for who holds the GPU.
    await using driver = cudaDriver({ ...this.#options, xidEvents: false })
    if (!(await driver.probe({ signal })).usable) return
    const { devices } = await driver.list({ signal })
    this.#gpus = new Map(
      devices.map(({ key, identity, gpu }) => [key, { address: identity.pciAddress, name: gpu.name ?? key }]),
    )
  }

  #viewOf(process: CudaProcess): ProgramView {
    const { pid, name, command, user, memory, checkpointable } = process
    return {
      pid,
      name: plain(name),
      command: plain(command.join(' ')).slice(0, mostCharacters),
      user: user === undefined ? undefined : plain(user),
      state: stateText(process),
      memory: memory.map(({ uuid, bytes }) => ({ gpu: this.#titleOf(uuid), bytes })),
      obstacles: checkpointable.possible ? [] : checkpointable.reasons.map(({ reason }) => plain(reason)),
    }
  }

  /** As the rest of the page calls the GPU. */
  #titleOf(uuid: string): string {
    const gpu = this.#gpus.get(uuid)
    const device = this.#manager.devices.find(
      ({ identity }) => identity.uuid === uuid || (gpu !== undefined && identity.pciAddress === gpu.address),
    )
    return device === undefined ? (gpu?.name ?? uuid) : deviceName(device)
  }
}

function runsCuda({ driver, powerState, state }: EGpuDevice): boolean {
  return driver === 'nvidia' && powerState !== 'suspended' && state !== 'lost' && state !== 'wedged'
}

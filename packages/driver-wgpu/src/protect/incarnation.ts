import type { AdapterSeen } from '../adapters/adapter-seen.ts'
import { DeviceGuard } from '../checkpoint/device-guard.ts'
import { Heartbeat } from '../device/heartbeat.ts'
import type { HeartbeatOptions } from '../device/heartbeat.ts'
import type { HeldDevice } from '../device/held-devices.ts'
import { laterQuietly } from '../device/timers.ts'
import { BufferUsage, MapMode } from '../flags.ts'
import { ImageMover } from './image-mover.ts'
import type { Prepared } from './prepared.ts'
import { StagingPool } from './staging-pool.ts'
import type { Successor } from './successor.ts'

/** One device in the life of a protected one, with what belongs to it alone. */
export class Incarnation {
  /** Its place among the devices of a protected one, from 1; a later one gets it when it takes over. */
  epoch = 1
  readonly held: HeldDevice
  readonly device: GPUDevice
  /** The adapter it was opened on. */
  readonly seen: AdapterSeen
  readonly guard: DeviceGuard
  readonly mover: ImageMover
  /** What was made on it before it took over. */
  readonly prepared: Prepared
  readonly #pool: StagingPool
  readonly #heartbeat: Heartbeat
  /** Ends each read that is under way with nothing. */
  readonly #reading: Set<() => void> = new Set()
  /** Four bytes to copy from, for the question whether the device lives. */
  readonly #canary: GPUBuffer

  constructor({ held, seen, prepared }: Successor, heartbeat: HeartbeatOptions, onHang: (waitedMs: number) => void) {
    this.held = held
    this.device = held.device
    this.seen = seen
    this.prepared = prepared
    this.guard = new DeviceGuard(held.device, seen.name, held.device.lost)
    this.mover = new ImageMover(held.device)
    this.#pool = new StagingPool(held.device)
    this.#canary = held.device.createBuffer({ label: 'egpu canary', size: 4, usage: BufferUsage.CopySrc })
    this.#heartbeat = new Heartbeat(held.device.queue, heartbeat, (waitedMs) => {
      held.isHung = true
      for (const giveUp of this.#reading) giveUp()
      onHang(waitedMs)
    })
  }

  get adapterName(): string {
    return this.seen.name
  }

  /** It runs on the CPU. */
  get isSoftware(): boolean {
    return this.seen.software
  }

  /** Resolves once all work so far was done: true, or false when the device was lost or hangs. */
  async isAliveAfterWork(): Promise<boolean> {
    return (await this.read(this.#canary, 0, 4)) !== undefined
  }

  /** A copy of bytes after all work so far; `undefined` when the device was lost, whatever it pretends, or hangs. */
  read(source: GPUBuffer, offset: number, size: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => resolve(undefined)
      this.#reading.add(giveUp)
      if (this.held.isHung) giveUp()
      void this.#read(source, offset, size)
        .then(resolve, reject)
        .finally(() => this.#reading.delete(giveUp))
    })
  }

  async #read(source: GPUBuffer, offset: number, size: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const staging = this.#pool.acquire(size)
    if (size > 0) {
      const encoder = this.device.createCommandEncoder({ label: 'egpu readback' })
      encoder.copyBufferToBuffer(source, offset, staging, 0, size)
      this.device.queue.submit([encoder.finish()])
    }
    try {
      await staging.mapAsync(MapMode.Read, 0, Math.max(4, size))
    } catch (error) {
      await this.#expectLoss(error)
      return undefined
    }
    const bytes = new Uint8Array(staging.getMappedRange(0, size).slice(0))
    staging.unmap()
    this.#pool.release(staging)
    return bytes
  }

  stop(): void {
    this.#heartbeat.stop()
  }

  /** A mapping of ours fails only when the device is gone; if it is not, the error is one to be told. */
  async #expectLoss(error: unknown): Promise<void> {
    this.device.queue.submit([])
    let timer: { cancel(): void } | undefined
    const patience = new Promise<never>((_, reject) => (timer = laterQuietly(2000, () => reject(error))))
    await Promise.race([this.device.lost, patience])
    timer?.cancel()
  }
}

import { abandonable, EGpuError, EGpuErrorCode, EGpuPowerState, RuntimeKind, transferTimeMs } from '@egpu/core'
import type { AbortOptions, Clock, ComputeTarget, DeviceHolder, HealthSample, OpenTarget, TargetLoss } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import { BackedTarget } from './backed-target.ts'
import type { CardPlace, MachineContext } from './context.ts'
import type { SimGpuDescription } from './descriptions.ts'
import { Engine } from './engine.ts'
import { keyOf, observationOf } from './observation.ts'
import type { ErrorCounts, SimCard } from './sim-card.ts'
import type { SimKernelCost } from './sim-gpu.ts'
import { SimTarget } from './target.ts'
import type { CardTarget, TargetHost } from './target.ts'
import { Thermal } from './thermal.ts'

/** Memory a driver keeps for itself; so an idle card never reads 0. */
const firmwareBytes = 64 * 2 ** 20

/** Round trip over a Thunderbolt tunnel: 30–50 µs are measured. */
const linkLatencyMs = 0.04

/** Cost of one dispatch: 24–36 µs on Vulkan, arXiv 2604.02344. */
const dispatchMs = 0.03

export class Card implements SimCard, TargetHost {
  readonly key: string
  readonly description: SimGpuDescription
  readonly place: CardPlace
  readonly compute: Engine = new Engine()
  readonly transfers: Engine = new Engine()
  readonly totalBytes: number
  stage: SimCard['stage'] = 'absent'
  epoch = 1
  wakeups = 0
  failingStep: { readonly step: string; readonly reason: string } | undefined
  readonly #machine: MachineContext
  readonly #thermal: Thermal
  readonly #serial: string
  readonly #targets = new Set<CardTarget>()
  readonly #holders = new Set<DeviceHolder>()
  #pciAddress = ''
  #suspended = false
  #silentlyWedged = false
  #leakedBytes = 0
  #errors = { correctable: 0, nonfatal: 0, fatal: 0 }
  #running = 0
  /** Ends an arrival under way. None where arrivals take no time: ten thousand of them are a burden. */
  #arrival: AbortController | undefined
  #observation: DeviceObservation | undefined

  constructor(description: SimGpuDescription, place: CardPlace, machine: MachineContext) {
    if (description.backing !== undefined) machine.checkRuntime(description.backing.runtime)
    this.description = description
    this.place = place
    this.#machine = machine
    this.#serial = description.serial ?? machine.random.hex(16)
    this.key = description.id ?? keyOf(description, this.#serial)
    this.totalBytes = description.memoryBytes ?? 8 * 2 ** 30
    this.#thermal = new Thermal(machine.clock.now(), machine.ambientCelsius, description.idleWatts ?? 15)
  }

  get clock(): Clock {
    return this.#machine.clock
  }

  get temperatureCelsius(): number {
    return this.#thermal.celsius(this.clock.now())
  }

  get listed(): boolean {
    return this.stage !== 'absent'
  }

  // --- coming and going, by the enclosure or the machine ---

  /** On the bus, then bound to its driver; in the same turn where the machine's timing has no delays. */
  async arrive(): Promise<void> {
    const { presentAfterMs = 0, readyAfterMs = 0 } = this.#machine.timing
    this.#arrival = presentAfterMs > 0 || readyAfterMs > 0 ? new AbortController() : undefined
    const signal = this.#arrival?.signal
    try {
      if (presentAfterMs > 0) await this.clock.sleep(presentAfterMs, { signal })
      this.#pciAddress = this.#machine.nextPciAddress()
      this.#suspended = false
      this.setStage('present')
      if (readyAfterMs > 0) await this.clock.sleep(readyAfterMs, { signal })
      this.setStage('ready')
    } catch (error) {
      if (signal?.aborted !== true) throw error
    }
  }

  setStage(stage: Exclude<SimCard['stage'], 'absent'>): void {
    this.stage = stage
    this.changed()
  }

  /** Something about it changed: tells everybody who watches. */
  changed(): void {
    this.#observation = undefined
    if (this.listed && this.#machine.watched) this.#machine.emit({ type: 'device-observed', device: this.observe() })
  }

  announceLeaving(reason: string): void {
    if (this.listed) this.#machine.emit({ type: 'device-leaving', key: this.key, reason })
  }

  /** The power is gone: targets are lost and memory with them. */
  cutOff(loss: Pick<TargetLoss, 'reason' | 'message'>): void {
    this.#arrival?.abort()
    this.#observation = undefined
    if (!this.listed) return
    this.#die(loss)
    this.#machine.emit({ type: 'device-lost', key: this.key, reason: loss.message })
  }

  leaveBus(graceful: boolean): void {
    this.#arrival?.abort()
    if (!this.listed) return
    if (graceful) this.#die({ reason: 'unplugged', message: `${this.name} was removed safely` })
    this.stage = 'absent'
    this.#silentlyWedged = false
    this.#observation = undefined
    this.#machine.emit({ type: 'device-removed', key: this.key, graceful })
  }

  closeTargets(): Promise<unknown> {
    this.#arrival?.abort()
    return Promise.all([...this.#targets].map((target) => target.close()))
  }

  // --- what the driver reads ---

  get name(): string {
    return this.description.name ?? 'Simulated GPU'
  }

  observe(): DeviceObservation {
    return (this.#observation ??= observationOf({
      key: this.key,
      // Only listed cards are looked at.
      stage: this.stage === 'absent' ? 'present' : this.stage,
      description: this.description,
      place: this.place,
      serial: this.#serial,
      pciAddress: this.#pciAddress,
      memoryBytes: this.totalBytes,
      powerState: this.#powerState,
    }))
  }

  get holders(): readonly DeviceHolder[] {
    const open = [...this.#targets].map(({ pid }) => ({ pid, name: 'simulated process', holds: 'an open target' }))
    return [...this.#holders, ...open]
  }

  async sample(options: AbortOptions): Promise<HealthSample> {
    if (this.#silentlyWedged) return abandonable(new Promise<never>(() => undefined), options.signal)
    if (this.stage === 'wedged') throw this.lostError('it does not answer')
    const awake = !this.#suspended
    return {
      atMs: this.clock.now(),
      // Reading these would wake it.
      temperatureCelsius: awake ? this.temperatureCelsius : undefined,
      powerWatts: awake ? this.#thermal.watts : undefined,
      memoryUsedBytes: awake ? this.usedBytes() : undefined,
      temperatureLimitCelsius: this.#limitCelsius,
      memoryTotalBytes: this.totalBytes,
      correctableErrors: this.#errors.correctable,
      nonfatalErrors: this.#errors.nonfatal,
      fatalErrors: this.#errors.fatal,
      linkRatio: this.place.linkRatio(),
    }
  }

  get targetId(): string {
    return `${this.#machine.driverName}:${this.key}`
  }

  computeTarget(): ComputeTarget {
    const { backing, flops = 1e13, memoryGBps = 400 } = this.description
    return {
      id: this.targetId,
      name: this.name,
      kind: 'gpu',
      runtime: backing?.runtime ?? RuntimeKind.Simulated,
      deviceId: this.key,
      memoryBytes: this.totalBytes,
      limits: backing?.limits,
      features: backing?.features,
      removable: this.place.external,
      flops,
      memoryGBps,
      linkGBps: this.observe().link?.effectiveGBps,
      latencyMs: linkLatencyMs,
    }
  }

  async open(options: AbortOptions): Promise<OpenTarget> {
    if (this.#silentlyWedged) return abandonable(new Promise<never>(() => undefined), options.signal)
    if (this.#suspended) {
      this.#suspended = false
      this.wakeups += 1
    }
    const { epoch } = this
    const birth = { target: this.computeTarget(), epoch, pid: this.#machine.nextPid(), host: this }
    const { backing } = this.description
    if (backing === undefined) return this.#opened(new SimTarget(birth))
    const opening = backing.open(options)
    const device = await abandonable(opening, options.signal).catch((error: unknown) => {
      // Whatever still comes of it belongs to nobody.
      void opening.then(
        (late) => late.destroy(),
        () => undefined,
      )
      throw error
    })
    if (this.epoch === epoch) return this.#opened(new BackedTarget(birth, device))
    device.destroy()
    throw this.lostError('it went away while it was being opened')
  }

  lostError(why: string): EGpuError {
    return new EGpuError(EGpuErrorCode.DeviceLost, `${this.name} (${this.key}) is lost: ${why}`, { deviceId: this.key })
  }

  // --- what runs on it ---

  usedBytes(): number {
    let used = firmwareBytes + this.#leakedBytes
    for (const target of this.#targets) used += target.usedBytes
    return Math.min(used, this.totalBytes)
  }

  transferMs(bytes: number, direction: 'toDevice' | 'fromDevice'): number {
    const rate = this.place.link(this.#pciAddress).effectiveGBps?.[direction]
    // The simulator knows every number of its links, so there always is a rate.
    return transferTimeMs(bytes, rate, linkLatencyMs) ?? Infinity
  }

  kernelMs({ flops = 0, vramBytes = 0 }: SimKernelCost): number {
    const { flops: flopsPerSecond = 1e13, memoryGBps = 400 } = this.description
    const ms = Math.max((flops / flopsPerSecond) * 1e3, vramBytes / (memoryGBps * 1e6))
    // Throttling halves the clocks, as vendors' first step does within a factor of two.
    return dispatchMs + (this.temperatureCelsius > this.#limitCelsius ? 2 * ms : ms)
  }

  working(change: 1 | -1): void {
    this.#running += change
    const { idleWatts = 15, loadWatts = 250 } = this.description
    this.#thermal.draw(this.#running > 0 ? loadWatts : idleWatts, this.clock.now())
  }

  closed(target: CardTarget): void {
    if (this.#targets.delete(target) && this.#targets.size === 0) this.changed()
  }

  // --- hands ---

  heat(celsius: number): void {
    this.#thermal.set(celsius, this.clock.now())
  }

  slowFan(share: number): void {
    // The heat sink alone still gives off about a fifth.
    this.#thermal.cooling(0.2 + 0.8 * share, this.clock.now())
  }

  leakMemory(bytes: number): void {
    this.#leakedBytes += Math.min(bytes, this.totalBytes - this.usedBytes())
  }

  countErrors({ correctable = 0, nonfatal = 0, fatal = 0 }: ErrorCounts): void {
    this.#errors.correctable += correctable
    this.#errors.nonfatal += nonfatal
    this.#errors.fatal += fatal
  }

  wedge({ silent = false }: { readonly silent?: boolean | undefined } = {}): void {
    this.#present()
    for (const target of this.#targets) target.wedge()
    if (silent) {
      this.#silentlyWedged = true
      return
    }
    this.#silentlyWedged = false
    this.#die({ reason: 'hung', message: `${this.name} does not answer` })
    this.stage = 'wedged'
    this.#observation = undefined
    this.#machine.emit({ type: 'device-wedged', key: this.key, reason: `${this.name} does not answer` })
  }

  reset(): void {
    this.#present()
    this.#silentlyWedged = false
    this.cutOff({ reason: 'reset', message: `${this.name} was reset` })
    this.setStage('ready')
  }

  suspend(): void {
    this.#present()
    if (this.#targets.size > 0) {
      throw new EGpuError(EGpuErrorCode.DeviceBusy, `${this.name} is in use and cannot sleep`, { deviceId: this.key })
    }
    this.#suspended = true
    this.changed()
  }

  hold(holder: DeviceHolder): () => void {
    this.#present()
    this.#holders.add(holder)
    return () => this.#holders.delete(holder)
  }

  failEject(step: 'unbind' | 'remove' | 'deauthorize', reason: string): void {
    this.failingStep = { step, reason }
  }

  get #powerState(): EGpuPowerState {
    if (this.#suspended) return EGpuPowerState.Suspended
    return this.#targets.size > 0 ? EGpuPowerState.Active : EGpuPowerState.Idle
  }

  get #limitCelsius(): number {
    return this.description.temperatureLimitCelsius ?? 83
  }

  #opened<T extends OpenTarget & CardTarget>(target: T): T {
    this.#targets.add(target)
    this.changed()
    return target
  }

  #present(): void {
    if (this.listed) return
    throw new EGpuError(EGpuErrorCode.DeviceNotFound, `${this.name} (${this.key}) is not plugged in`, {
      deviceId: this.key,
    })
  }

  #die(loss: Pick<TargetLoss, 'reason' | 'message'>): void {
    this.epoch += 1
    this.#leakedBytes = 0
    this.#holders.clear()
    const targets = [...this.#targets]
    this.#targets.clear()
    for (const target of targets) target.end({ ...loss, atMs: this.clock.now() })
  }
}

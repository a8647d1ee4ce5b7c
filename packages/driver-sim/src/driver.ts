import { abandonable, EGpuError, EGpuErrorCode, RuntimeKind, systemClock } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import { EventQueue } from '@egpu/core/driver'
import type { DriverEvent, DriverSnapshot, EGpuDriver, HealthCapability, RuntimeCapability } from '@egpu/core/driver'
import type { SafeRemovalCapability } from '@egpu/core/driver'
import type { Card } from './card.ts'
import type { SimMachineDescription } from './descriptions.ts'
import { safeRemovalOf } from './eject.ts'
import { Machine } from './machine.ts'
import type { SimMachine, Watcher } from './machine.ts'
import { seededRandom } from './random.ts'

export interface SimDriverOptions extends SimMachineDescription {
  /** Unique among the drivers of one manager; `sim` by default. */
  readonly name?: string | undefined
  /** A `VirtualClock`, or real time by default. */
  readonly clock?: Clock | undefined
  /** Same seed, same serial numbers and ids; 1 by default. */
  readonly seed?: number | undefined
  /** Runtimes of GPUs that get a backing later; those in the description are known already. */
  readonly runtimes?: readonly RuntimeKind[] | undefined
}

/** A driver for a machine in memory, and the hands on it. */
export interface SimDriver extends EGpuDriver {
  readonly machine: SimMachine
  readonly health: HealthCapability
  readonly safeRemoval: SafeRemovalCapability
  readonly runtime: RuntimeCapability
}

/** Makes a machine in memory. Does nothing by itself: use `machine` to plug, pull, heat and break things. */
export function simDriver(options: SimDriverOptions = {}): SimDriver {
  const { name = 'sim', clock = systemClock, seed = 1, ...description } = options
  const runtimes = runtimesOf(options)
  const machine = new Machine({ ...description, driverName: name, clock, random: seededRandom(seed), runtimes })
  const { answerMs = 0, ejectStepMs = 0 } = options.timing ?? {}
  const queues = new Set<EventQueue<DriverEvent>>()
  let closed = false

  /** Every answer takes its time, and a closed driver gives none. */
  const answer = async <T>(signal: AbortSignal | undefined, look: () => T | Promise<T>): Promise<T> => {
    signal?.throwIfAborted()
    assertOpen()
    if (answerMs > 0) await clock.sleep(answerMs, { signal })
    assertOpen()
    return look()
  }

  const assertOpen = (): void => {
    if (closed) throw new EGpuError(EGpuErrorCode.Closed, `driver ${name} was closed`, { driver: name })
  }

  const find = (key: string): Card => {
    assertOpen()
    const card = machine.find(key)
    if (card !== undefined) return card
    throw new EGpuError(EGpuErrorCode.DeviceNotFound, `driver ${name} sees no device ${key}`, {
      driver: name,
      deviceId: key,
    })
  }

  const list = ({ signal }: AbortOptions = {}): Promise<DriverSnapshot> => answer(signal, () => machine.snapshot())

  const watch = ({ signal }: Required<AbortOptions>): AsyncIterable<DriverEvent> => {
    /** What happened during the first look; told after it. */
    let early: DriverEvent[] | undefined = []
    const watcher: Watcher = {
      event: (event) => (early === undefined ? queue.push(event) : early.push(event)),
      overflow: () => {
        queue.clear()
        if (early === undefined) queue.push({ type: 'resync', reason: 'overflow', snapshot: machine.snapshot() })
      },
    }
    const queue = new EventQueue<DriverEvent>({
      signal,
      onEnd: () => {
        machine.watchers.delete(watcher)
        queues.delete(queue)
      },
    })
    if (signal?.aborted === true) return queue
    if (closed) {
      queue.end()
      return queue
    }
    machine.watchers.add(watcher)
    queues.add(queue)
    const begin = (snapshot: DriverSnapshot): void => {
      queue.push({ type: 'resync', reason: 'started', snapshot })
      for (const event of early ?? []) queue.push(event)
      early = undefined
    }
    if (answerMs === 0) begin(machine.snapshot())
    // Looks first and takes its time then, so that what happens meanwhile is in the events only.
    else {
      const snapshot = machine.snapshot()
      clock.sleep(answerMs, { signal }).then(
        () => begin(snapshot),
        () => queue.end(),
      )
    }
    return queue
  }

  const close = async (): Promise<void> => {
    closed = true
    for (const queue of queues) queue.end()
    await Promise.all(machine.gpus.map((card) => card.closeTargets()))
  }

  return {
    specVersion: 1,
    name,
    capabilities: {
      hotplug: true,
      verdict: true,
      health: true,
      safeRemoval: true,
      passthrough: false,
      runtimes,
    },
    machine,
    probe: async ({ signal } = {}) => {
      signal?.throwIfAborted()
      return closed ? { usable: false, reason: `The driver ${name} was closed.` } : { usable: true }
    },
    list,
    watch,
    health: { sample: (key, { signal } = {}) => answer(signal, () => find(key).sample({ signal })) },
    safeRemoval: safeRemovalOf(machine, find, ejectStepMs),
    runtime: {
      targets: ({ signal } = {}) =>
        answer(signal, () => machine.gpus.filter((card) => card.stage === 'ready').map((card) => card.computeTarget())),
      open: (targetId, { signal } = {}) =>
        answer(signal, () => {
          const card = machine.find(targetId.slice(name.length + 1))
          if (card?.targetId === targetId && card.stage === 'ready') return abandonable(card.open({ signal }), signal)
          throw new EGpuError(EGpuErrorCode.DeviceNotFound, `driver ${name} has no target ${targetId} to open`, {
            driver: name,
          })
        }),
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function runtimesOf({ runtimes = [], gpus = [], enclosures = [] }: SimDriverOptions): readonly RuntimeKind[] {
  const described = [...gpus, ...enclosures.flatMap((enclosure) => enclosure.gpus ?? [])]
  const backed = described.flatMap(({ backing }) => (backing === undefined ? [] : [backing.runtime]))
  return Object.freeze([...new Set([RuntimeKind.Simulated, ...runtimes, ...backed])])
}

import type { GuestWatch } from './guest-watch.ts'
import { ports } from './machine.ts'
import type { Machine } from './machine.ts'

/** How a number of plugs and pulls went. */
export interface CycleReport {
  readonly cycles: number
  /** Plugs or pulls that were not told. */
  readonly missed: number
  /** Departures that were told more than once. */
  readonly repeated: number
  /** Cycles whose events came in another order than: arrivals, leaving, lost, removed. */
  readonly reordered: number
  /** Heap of the watching process at the end over that after a quarter of the cycles, both after garbage collection. */
  readonly heapGrowth: number
  /** The events of the first cycle that went wrong. */
  readonly firstFault?: string | undefined
}

/** Plugs a card and pulls it, over and over, in ports that take turns so that a slot can rest. */
export async function runCycles(machine: Machine, watch: GuestWatch, cycles: number): Promise<CycleReport> {
  const order = Object.values(ports)
  const faults = { missed: 0, repeated: 0, reordered: 0 }
  let firstFault: string | undefined
  let early = Number.NaN
  for (let cycle = 0; cycle < cycles; cycle++) {
    watch.clear()
    const port = order[cycle % order.length] as (typeof order)[number]
    await machine.plugCard(port, 'none')
    const key = await watch.untilReady()
    await machine.yank(port)
    await watch.until('removal', ({ type }) => type === 'device-removed')
    const told = watch.list().filter((line) => line.startsWith('device-'))
    const count = (type: string): number => told.filter((line) => line === `device-${type} ${key}`).length
    const departures = ['leaving', 'lost', 'removed']
    const right = [
      ...Array.from({ length: count('observed') }, () => `device-observed ${key}`),
      ...departures.map((type) => `device-${type} ${key}`),
    ]
    if (told.join() !== right.join()) {
      firstFault ??= `cycle ${cycle}: ${told.join(', ')}`
      if (departures.some((type) => count(type) === 0)) faults.missed++
      else if (departures.some((type) => count(type) > 1)) faults.repeated++
      else faults.reordered++
    }
    if (cycle === Math.floor(cycles / 4)) early = await heapUsed(machine)
  }
  return { cycles, ...faults, heapGrowth: (await heapUsed(machine)) / early, firstFault }
}

async function heapUsed({ vm }: Machine): Promise<number> {
  return (await vm.call<NodeJS.MemoryUsage>('memory')).heapUsed
}

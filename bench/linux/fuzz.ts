import { fuzzMachines } from '../../packages/driver-linux/test/fuzz/machines.ts'
import { fuzzMessages } from '../../packages/driver-linux/test/fuzz/messages.ts'
import { fuzzWatches } from '../../packages/driver-linux/test/fuzz/watching.ts'
import type { Figure } from '../figure.ts'

const trees = 100_000
const messages = 500_000
const watches = 500

/** Machines and messages that are wrong in every way: none may crash, hang, or make the driver say what cannot be. */
export async function measure(): Promise<Figure[]> {
  const seed = Date.now() % 2 ** 31
  const failure = await fuzzMachines(trees, seed)
  const accepted = fuzzMessages(messages, seed)
  const story = await fuzzWatches(watches, seed)
  for (const found of [failure, story]) if (found !== undefined) console.error({ seed, found })
  const faults = [failure, story].filter((found) => found !== undefined).length
  return [
    {
      figure: `faults in ${trees} mutated machines, ${messages} mutated messages and ${watches} watches of machines that change`,
      value: faults,
      unit: `faults, seed ${seed}`,
      against: '>= 100,000 mutated trees and messages',
      bar: '= 0',
      pass: faults === 0,
    },
    { figure: 'mutated messages taken for events, all well formed', value: accepted, unit: 'messages' },
  ]
}

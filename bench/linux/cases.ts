import { isDeepStrictEqual } from 'node:util'
import { linuxDriver } from '../../packages/driver-linux/src/index.ts'
import { answerOf } from '../../packages/driver-linux/test/machines/answer.ts'
import { buildMachine, machines, negatives } from '../../packages/driver-linux/test/machines/index.ts'
import type { Figure } from '../figure.ts'

/** How many recorded machines are read right in every respect, and how many GPUs are wrongly called external. */
export async function measure(): Promise<Figure[]> {
  let right = 0
  let wrongExternals = 0
  for (const machine of machines) {
    using built = buildMachine(machine)
    const { sysfsRoot, procRoot } = built
    await using driver = linuxDriver({ sysfsRoot, procRoot, overrides: machine.overrides })
    const answer = answerOf(await driver.list())
    const expected = { ...machine.expected, findings: machine.expected.findings.toSorted() }
    if (isDeepStrictEqual(plain(answer), plain(expected))) right += 1
    if (negatives.includes(machine)) {
      wrongExternals += Object.values(answer.gpus).filter(({ verdict }) => verdict === 'external').length
    }
  }
  return [
    {
      figure: 'recorded machines read right',
      value: right,
      unit: 'machines',
      against: `${machines.length} machines`,
      ratio: right / machines.length,
      bar: '100 %',
      pass: right === machines.length,
    },
    {
      figure: `external GPUs on ${negatives.length} machines without one`,
      value: wrongExternals,
      unit: 'GPUs',
      against: '0',
      bar: '0',
      pass: wrongExternals === 0,
    },
  ]
}

/** Without properties that are `undefined`, in one order. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([, one]) => one !== undefined)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, one]) => [name, plain(one)]))
}

import { describe, expect, it } from 'vitest'
import { routerUidOf } from '../../src/enclosure/router-uid.ts'
import * as parse from '../../src/sysfs/parse.ts'
import { treeOf } from '../machines/build.ts'
import { machines } from '../machines/index.ts'
import { fuzzMachines } from './machines.ts'
import { mutateText } from './mutate.ts'
import { seeded } from './random.ts'
import { fuzzWatches } from './watching.ts'

/** A sample; `pnpm bench linux` does a hundred times as many. */
const treeCount = 1000
const watchCount = 40
const valueCount = 100_000

describe('fuzz', () => {
  it(`survives ${treeCount} mutated machines, and keeps what must hold`, { timeout: 3_600_000 }, async () => {
    expect(await fuzzMachines(treeCount, 20_261_130)).toBeUndefined()
  })

  it(
    'survives a machine and messages that go wrong while it watches, and tells a story that holds',
    { timeout: 600_000 },
    async () => {
      expect(await fuzzWatches(watchCount, 1130)).toBeUndefined()
    },
  )

  it(`parses ${valueCount} mutated values without throwing`, () => {
    const random = seeded(7)
    const texts = machines.flatMap((machine) =>
      [...treeOf(machine).values()].filter((entry) => typeof entry === 'string'),
    )
    const parsers = [...Object.values(parse).filter((one) => typeof one === 'function'), routerUidOf]
    const results = new Set<string>()
    for (let count = 0; count < valueCount; count += 1) {
      const text = mutateText(texts[count % texts.length] as string, random)
      for (const parser of parsers) results.add(typeof (parser as (text: string) => unknown)(text))
    }
    expect(results).toContain('undefined')
    expect(results).toContain('number')
  })
})

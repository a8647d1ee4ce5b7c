import { graphics } from 'systeminformation'
import { linuxDriver } from '../../packages/driver-linux/src/index.ts'
import { buildMachine, machineNamed } from '../../packages/driver-linux/test/machines/index.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

/** One look at this machine, against what the best-known package does to find graphics cards. */
export async function measure(): Promise<Figure[]> {
  await using driver = linuxDriver()
  const [ours, theirs] = await alternate(() => driver.list(), graphics, 30)
  using built = buildMachine(machineNamed('aorus-healthy-unbound'))
  await using recorded = linuxDriver({ sysfsRoot: built.sysfsRoot, procRoot: built.procRoot })
  const [eGpu] = await alternate(
    () => recorded.list(),
    () => Promise.resolve(),
    30,
  )
  return [
    {
      figure: 'full enumeration of this machine',
      value: ours,
      unit: 'ms p50',
      against: `systeminformation graphics(): ${theirs.toFixed(2)} ms p50`,
      ratio: theirs / ours,
      bar: '>= 20 x faster',
      pass: theirs / ours >= 20,
    },
    { figure: 'full enumeration of a recorded machine with a box', value: eGpu, unit: 'ms p50' },
  ]
}

/** Medians of both, taken in turns so that a busy machine is busy for both. */
async function alternate(
  one: () => Promise<unknown>,
  other: () => Promise<unknown>,
  rounds: number,
): Promise<readonly [number, number]> {
  const samples: readonly [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, run] of [one, other].entries()) {
      const began = performance.now()
      await run()
      samples[index]?.push(performance.now() - began)
    }
  }
  return [percentile(samples[0], 0.5), percentile(samples[1], 0.5)]
}

import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { macosDriver, plistSource } from '../../packages/driver-macos/src/index.ts'
import { mutate, random, smallDump } from '../../packages/driver-macos/test/mutate.ts'
import type { Figure } from '../figure.ts'

const dumps = 100_000

/** Damaged dumps: each must give an answer or say that it is malformed, and soon. */
export async function measure(): Promise<Figure[]> {
  const dump = smallDump()
  let crashes = 0
  let read = 0
  let slowestMs = 0
  for (let seed = 0; seed < dumps; seed += 1) {
    const damaged = mutate(dump, random(seed))
    const start = performance.now()
    await using driver = macosDriver({ source: plistSource(damaged) })
    try {
      await driver.list()
      read += 1
    } catch (error) {
      if (!EGpuError.is(error, EGpuErrorCode.MalformedData)) {
        crashes += 1
        console.error(`seed ${seed}:`, error)
      }
    }
    slowestMs = Math.max(slowestMs, performance.now() - start)
  }
  const against = `${dumps} mutated dumps, of which ${read} could be read`
  return [
    { figure: 'crashes', value: crashes, unit: 'dumps', against, bar: '0', pass: crashes === 0 },
    {
      figure: 'slowest answer',
      value: slowestMs,
      unit: 'ms',
      against: 'limit 1000 ms',
      ratio: slowestMs / 1000,
      bar: '<= 1000 ms',
      pass: slowestMs <= 1000,
    },
  ]
}

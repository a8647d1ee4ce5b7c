import { isDeepStrictEqual } from 'node:util'
import { macosDriver, plistSource } from '../../packages/driver-macos/src/index.ts'
import { cases } from '../../packages/driver-macos/test/cases.ts'
import { FakeMac } from '../../packages/driver-macos/test/fake-iokit.ts'
import { toPlist } from '../../packages/driver-macos/test/registry-tree.ts'
import { summarize } from '../../packages/driver-macos/test/summary.ts'
import type { Figure } from '../figure.ts'

/** Every given Mac through both sources: right only if the whole answer is. */
export async function measure(): Promise<Figure[]> {
  const right = { kernel: 0, dump: 0, same: 0 }
  for (const { tree, systemExtensions, expected } of cases) {
    const machine = tree()
    const mac = await FakeMac.boot(machine)
    await using live = macosDriver({ source: mac.source({ systemExtensions: async () => systemExtensions }) })
    await using dump = macosDriver({ source: plistSource(toPlist(machine), { systemExtensions }) })
    const [fromKernel, fromDump] = [await live.list(), await dump.list()]
    if (isDeepStrictEqual(summarize(fromKernel), expected)) right.kernel += 1
    if (isDeepStrictEqual(summarize(fromDump), expected)) right.dump += 1
    if (isDeepStrictEqual(fromKernel, fromDump)) right.same += 1
  }
  const figure = (name: string, count: number): Figure => ({
    figure: name,
    value: count,
    unit: 'Macs',
    against: `${cases.length} given`,
    ratio: count / cases.length,
    bar: 'all',
    pass: count === cases.length,
  })
  return [
    figure('Macs seen right through IOKit', right.kernel),
    figure('Macs seen right in an ioreg dump', right.dump),
    figure('Macs seen the same through both', right.same),
  ]
}

import { macosDriver, plistSource } from '../../packages/driver-macos/src/index.ts'
import type { RegistrySource } from '../../packages/driver-macos/src/index.ts'
import { FakeMac } from '../../packages/driver-macos/test/fake-iokit.ts'
import { toPlist } from '../../packages/driver-macos/test/registry-tree.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { bigMac, countOf } from './big-mac.ts'

const rounds = 40
const limitMs = 50

/** Listing the GPUs of a Mac with 5,000 registry entries, and reading every entry of it by brute force. */
export async function measure(): Promise<Figure[]> {
  const tree = bigMac(5_000)
  const entries = countOf(tree)
  const mac = await FakeMac.boot(tree)
  await using live = macosDriver({ source: mac.source() })
  const listMs = await timed(() => live.list())
  await using walker = mac.source()
  const walkMs = await timed(() => walk(walker, entries))
  const plist = toPlist(tree)
  const dumpMs = await timed(async () => {
    await using dump = macosDriver({ source: plistSource(plist) })
    await dump.list()
  })
  const against = `${entries} entries, limit ${limitMs} ms`
  const bar = `<= ${limitMs} ms`
  return [
    {
      figure: 'list through koffi, p50',
      value: listMs,
      unit: 'ms',
      against,
      ratio: listMs / limitMs,
      bar,
      pass: listMs <= limitMs,
    },
    {
      figure: 'id, class, parent and a property of every entry through koffi, p50',
      value: walkMs,
      unit: 'ms',
      against,
      ratio: walkMs / limitMs,
      bar,
      pass: walkMs <= limitMs,
    },
    {
      figure: 'list from a dump of them, p50',
      value: dumpMs,
      unit: 'ms',
      against: 'list through koffi',
      ratio: dumpMs / listMs,
    },
  ]
}

async function timed(action: () => Promise<unknown>): Promise<number> {
  for (let round = 0; round < 20; round += 1) await action()
  const samples: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const start = performance.now()
    await action()
    samples.push(performance.now() - start)
  }
  return percentile(samples, 0.5)
}

async function walk(source: RegistrySource, expected: number): Promise<void> {
  const registry = await source.open()
  let seen = 0
  for (const entry of registry.matching('IOService')) {
    seen += 1
    if (entry.id === undefined || entry.className === '') throw new Error('an entry told nothing')
    entry.property('IOProviderClass')
    entry.parent()?.[Symbol.dispose]()
    entry[Symbol.dispose]()
  }
  if (seen !== expected) throw new Error(`${seen} of ${expected} entries were seen`)
}

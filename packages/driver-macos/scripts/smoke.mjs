/**
 * Looks at a real Mac through this package and prints a report that can be posted in public: `pnpm smoke:macos`.
 *
 *   --from <dump.plist>   look at a dump instead, on any system
 *   --watch <seconds>     plug and pull the enclosure meanwhile; prints what was heard and when
 *
 * Needs the built package. Changes nothing. Unique ids, serials, addresses and paths of the Mac are left out or replaced
 * by numbers.
 */
import { readFile } from 'node:fs/promises'
import { arch, platform, release } from 'node:os'
import { isDeepStrictEqual, parseArgs } from 'node:util'

const { values: options } = parseArgs({ options: { from: { type: 'string' }, watch: { type: 'string' } } })
const seconds = options.watch === undefined ? 0 : Number(options.watch)
if (!(seconds >= 0)) throw new TypeError('--watch takes a number of seconds')

const macos = await import('@egpu/driver-macos').catch((cause) => {
  throw new Error('@egpu/driver-macos is not built: pnpm --filter @egpu/driver-macos... build', { cause })
})

const report = { system: `${platform()} ${release()} ${arch()}`, node: process.version }
const sources =
  options.from === undefined
    ? { iokit: macos.iokitSource(), push: macos.iokitSource({ mode: 'push' }), ioreg: macos.ioregSource() }
    : { dump: macos.plistSource(await readFile(options.from)) }

const snapshots = {}
for (const [name, source] of Object.entries(sources)) {
  const driver = macos.macosDriver({ source })
  const probe = await driver.probe()
  report[name] = probe.usable ? { usable: true } : { usable: false, reason: probe.reason }
  if (probe.usable) {
    try {
      snapshots[name] = await driver.list()
      const start = performance.now()
      await driver.list()
      report[name].secondListMs = Math.round((performance.now() - start) * 10) / 10
      report[name].resync = await firstEvent(driver)
      if (seconds > 0 && driver.capabilities.hotplug) report[name].heard = await listen(driver)
    } catch (error) {
      report[name].error = String(error)
    }
  }
  await driver.close()
}

const [best] = Object.values(snapshots)
if (best !== undefined) {
  report.snapshot = redact(best)
  report.sourcesAgree = Object.values(snapshots).every((one) => isDeepStrictEqual(redact(one), report.snapshot))
  const source = options.from === undefined ? macos.iokitSource() : macos.plistSource(await readFile(options.from))
  report.thunderboltInterfaces = (await macos.thunderboltInterfaces({ source })).map(({ peers, ...rest }) => ({
    name: rest.name,
    isUp: rest.isUp,
    claimedGbps: rest.claimedGbps,
    peers: peers.map(({ receptacle, trained }) => ({ receptacle, trained })),
  }))
  await source[Symbol.asyncDispose]()
}
console.log(JSON.stringify(report, undefined, 2))
if (best === undefined) {
  console.error(
    platform() === 'darwin'
      ? 'no source could be read: the reasons are above'
      : `this is ${platform()}, and there is no Mac to look at: run it on macOS 11 or later, or hand over what ` +
          '`ioreg -a -l -i -w0 > dump.plist` printed there: pnpm smoke:macos --from dump.plist',
  )
  process.exitCode = 1
}

/** The type of the first event of a watch, which then is ended. */
async function firstEvent(driver) {
  for await (const event of driver.watch({ signal: AbortSignal.timeout(10_000) })) return event.type
  return 'nothing within 10 s'
}

async function listen(driver) {
  const heard = []
  const start = performance.now()
  console.error(`listening for ${seconds} s: plug and pull the enclosure now`)
  for await (const event of driver.watch({ signal: AbortSignal.timeout(seconds * 1000) })) {
    heard.push({ atMs: Math.round(performance.now() - start), type: event.type })
  }
  return heard
}

/** Every unique thing becomes the number of its first appearance, so that what belongs together still shows. */
function redact(snapshot) {
  const known = new Map()
  const number = (text) => {
    if (!known.has(text)) known.set(text, `id${known.size + 1}`)
    return known.get(text)
  }
  const unique = new Set(['uuid', 'serial', 'pciAddress', 'registryEntryId', 'enclosureUid', 'id', 'at', 'source'])
  const references = new Set(['key', 'enclosureId', 'parentId', 'deviceId'])
  const clean = (value, key) => {
    if (Array.isArray(value)) return value.map((item) => clean(item))
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, clean(item, name)]))
    }
    if (typeof value !== 'string') return value
    if (unique.has(key) || references.has(key)) return number(value)
    // Ids, paths and addresses inside sentences and evidence.
    return value.replace(/0x[\da-f]{16}|IOService:\S*|registry-entry-\d+|\b[\da-f]{2}(?::[\da-f]{2}){5}\b/gi, number)
  }
  return clean(snapshot)
}

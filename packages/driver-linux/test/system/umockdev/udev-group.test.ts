import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const python = '/usr/bin/python3'
const hasTestbed = existsSync('/usr/bin/umockdev-wrapper') && canImport()
const uid = 'efcdab89-6745-2301-ffff-ffffffffffff'

it.skipIf(!hasTestbed)('hears a whole plug and unplug through udev’s socket', async () => {
  const [testbed, watch] = ['testbed.py', 'watch.mjs'].map((file) => fileURLToPath(new URL(file, import.meta.url)))
  const { stdout } = await promisify(execFile)(
    'umockdev-wrapper',
    [python, testbed as string, process.execPath, watch as string],
    { timeout: 120_000 },
  )
  const lines = stdout
    .trim()
    .split('\n')
    .filter((line) => !line.startsWith('findings-observed'))
  const arrivals = lines.filter((line) => line.startsWith('device-observed'))
  expect(arrivals.at(-1)).toBe(`device-observed | ${uid}/0 | ready | external`)
  expect(lines.filter((line) => !line.startsWith('device-observed'))).toEqual([
    'resync | started',
    '-- box',
    `enclosure-observed | ${uid}`,
    '-- card',
    '-- pulled',
    `device-leaving | AORUS BOX is off the cable | ${uid}/0`,
    `enclosure-removed | ${uid}`,
    '-- taken down',
    `device-lost | its cable is out and its kernel driver let go of it | ${uid}/0`,
    `device-removed | ${uid}/0 | false`,
  ])
})

function canImport(): boolean {
  const program = "import gi; gi.require_version('UMockdev', '1.0')"
  return spawnSync(python, ['-c', program], { stdio: 'ignore' }).status === 0
}

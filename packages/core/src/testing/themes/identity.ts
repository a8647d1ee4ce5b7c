import assert from 'node:assert/strict'
import type { DeviceObservation } from '../../driver/observation.ts'
import type { Theme } from '../rule.ts'

/** Names that change with plug order: PCI addresses, numbers, and what kernels and APIs count up. */
const bareIndex =
  /^(?:(?:pci[-_:/]?)?(?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.[0-7]|(?:gpu|card|renderD|device|adapter|nvidia)?[-_ #:]?\d+)$/i

export const identityTheme: Theme = {
  name: 'identity',
  rules: [
    {
      name: 'gives every device a key of its own',
      async check(bench) {
        const { devices } = await bench.soon('list()', bench.driver.list())
        const keys = devices.map((device) => device.key)
        for (const key of keys) assert(typeof key === 'string' && key.trim() !== '', 'a key is a string with content')
        assert.deepEqual([...new Set(keys)], keys, 'keys are unique')
      },
    },
    {
      name: 'never uses a bus number or an index alone as key',
      async check(bench) {
        const { devices } = await bench.soon('list()', bench.driver.list())
        for (const { key } of devices) assert.doesNotMatch(key, bareIndex, `${key} changes with plug order`)
      },
    },
    {
      name: 'leaves unknown properties undefined: never an empty string, NaN, null or "unknown"',
      async check(bench) {
        const { devices, enclosures } = await bench.soon('list()', bench.driver.list())
        // A verdict may conclude `unknown`, and evidence quotes what was read.
        for (const { verdict: _verdict, ...device } of devices) checkKnown(device, device.key)
        for (const enclosure of enclosures) checkKnown(enclosure, enclosure.id)
      },
    },
    {
      name: 'writes ids as numbers and addresses in full, lower case',
      async check(bench) {
        const { devices } = await bench.soon('list()', bench.driver.list())
        for (const device of devices) checkIds(device)
      },
    },
    {
      name: 'gives a device the same key after a re-plug',
      async check(bench) {
        const [unplug, plug] = [bench.hand('unplug'), bench.hand('plug')]
        const { key } = await bench.subject()
        const { events } = bench.watch()
        await events.start()
        await unplug()
        await events.untilPresent(key, false)
        await plug()
        await events.untilPresent(key, true)
        const { devices } = await bench.soon('list()', bench.driver.list())
        assert.equal(devices.filter((device) => device.key === key).length, 1, `${key} is back once`)
      },
    },
  ],
}

function checkIds({ key, identity, gpu }: DeviceObservation): void {
  for (const part of [identity, gpu]) {
    for (const name of ['vendorId', 'deviceId', 'subsystemVendorId', 'subsystemDeviceId'] as const) {
      const id = part[name]
      assert(id === undefined || (Number.isInteger(id) && id >= 0 && id <= 0xffff), `${key}: ${name} ${id} is 16 bits`)
    }
  }
  if (identity.pciAddress === undefined) return
  assert.match(identity.pciAddress, /^[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/, `${key}: a full PCI address`)
}

function checkKnown(value: unknown, path: string): void {
  assert.notEqual(value, null, `${path} is null; unknown is undefined`)
  if (typeof value === 'number') assert(!Number.isNaN(value), `${path} is NaN; unknown is undefined`)
  if (typeof value === 'string') {
    assert.notEqual(value.trim(), '', `${path} is empty; unknown is undefined`)
    assert.doesNotMatch(value, /^(unknown|n\/a|none|null|undefined)$/i, `${path} is "${value}"; unknown is undefined`)
  }
  if (typeof value !== 'object' || value === null) return
  for (const [name, child] of Object.entries(value)) checkKnown(child, `${path}.${name}`)
}

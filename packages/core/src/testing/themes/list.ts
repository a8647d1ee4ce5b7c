import assert from 'node:assert/strict'
import type { DriverSnapshot } from '../../driver/observation.ts'
import type { Theme } from '../rule.ts'

export const listTheme: Theme = {
  name: 'list',
  rules: [
    {
      name: 'gives devices, enclosures and findings, with stages and references that make sense',
      async check(bench) {
        const { devices, enclosures, findings } = await bench.soon('list()', bench.driver.list())
        assert(Array.isArray(devices) && Array.isArray(enclosures) && Array.isArray(findings), 'three arrays')
        const boxes = new Set(enclosures.map((enclosure) => enclosure.id))
        assert.equal(boxes.size, enclosures.length, 'enclosure ids are unique')
        for (const { key, stage, enclosureId } of devices) {
          assert(['present', 'ready', 'lost', 'wedged'].includes(stage), `${key}: ${stage} is a stage`)
          assert(enclosureId === undefined || boxes.has(enclosureId), `${key}: enclosure ${enclosureId} is listed`)
        }
        for (const finding of findings) assert.match(finding.code, /^[a-z\d]+(-[a-z\d]+)*$/, 'codes are kebab-case')
      },
    },
    {
      name: 'gives the same twice while nothing changes, also when asked in parallel',
      async check(bench) {
        const one = await bench.soon('list()', bench.driver.list())
        const lists = Array.from({ length: 8 }, () => bench.driver.list())
        for (const other of await bench.soon('eight lists', Promise.all(lists))) {
          assert.deepEqual(keysOf(other), keysOf(one))
        }
      },
    },
    {
      name: 'gives a snapshot that callers cannot use to change what others see',
      async check(bench) {
        const subject = await bench.subject()
        const before = structuredClone(subject)
        const snapshot = await bench.soon('list()', bench.driver.list())
        const device = snapshot.devices.find(({ key }) => key === subject.key)
        attempt(() => Object.assign(device?.gpu ?? {}, { name: 'forged' }))
        attempt(() => Object.assign(device?.identity ?? {}, { serial: 'forged' }))
        attempt(() => (snapshot.devices as unknown[]).splice(0))
        const after = (await bench.soon('list()', bench.driver.list())).devices.find(({ key }) => key === subject.key)
        assert.equal(after?.gpu.name, before.gpu.name, 'a forged name does not show')
        assert.equal(after?.identity.serial, before.identity.serial, 'a forged serial number does not show')
      },
    },
    {
      name: 'looks afresh each time and leaves earlier snapshots alone',
      async check(bench) {
        const unplug = bench.hand('unplug')
        const { key } = await bench.subject()
        const before = await bench.soon('list()', bench.driver.list())
        await unplug()
        // A driver whose list follows events may need a moment; a cached answer stays wrong.
        const deadline = Date.now() + bench.patienceMs
        let after = await bench.soon('list()', bench.driver.list())
        while (isUsable(after, key) && Date.now() < deadline) {
          await new Promise((resolve) => setTimeout(resolve, 10))
          after = await bench.soon('list()', bench.driver.list())
        }
        assert(!isUsable(after, key), `${key} is unplugged and still listed as usable`)
        assert(isUsable(before, key), 'the earlier snapshot is as it was')
      },
    },
  ],
}

function isUsable(snapshot: DriverSnapshot, key: string): boolean {
  return snapshot.devices.some((device) => device.key === key && device.stage !== 'lost' && device.stage !== 'wedged')
}

function keysOf(snapshot: DriverSnapshot): string[] {
  return snapshot.devices.map((device) => device.key).sort()
}

/** Frozen objects throw, copies do not; both are fine. */
function attempt(change: () => void): void {
  try {
    change()
  } catch (error) {
    assert(error instanceof TypeError, 'a refused change throws TypeError')
  }
}

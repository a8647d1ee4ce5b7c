import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { linuxDriver } from '../../src/index.ts'
import { readTopology } from '../../src/topology/read-topology.ts'

describe.runIf(process.platform === 'linux')('the machine this runs on', () => {
  it('has every PCI function that sysfs lists', async () => {
    const topology = await readTopology('/sys')
    expect([...topology.pci.keys()].sort()).toEqual(readdirSync('/sys/bus/pci/devices').sort())
  })

  it('lists through the driver', async () => {
    await using driver = linuxDriver()
    const snapshot = await driver.list()
    expect(new Set(snapshot.devices.map(({ key }) => key)).size).toBe(snapshot.devices.length)
  })
})

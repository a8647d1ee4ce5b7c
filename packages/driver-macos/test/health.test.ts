import { describe, expect, it } from 'vitest'
import { entry, intelMac, linkRegister, pci, tunnel } from './mac.ts'
import { macosDriver, plistSource } from '../src/index.ts'
import { FakeMac } from './fake-iokit.ts'
import { EGpuMac, gpuKey } from './egpu-mac.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode, TreeValue } from './registry-tree.ts'

function withStatistics(statistics: Readonly<Record<string, TreeValue>>): TreeNode {
  const accelerator = entry('AMDRadeonX6000_AMDNavi21GraphicsAccelerator', 'Navi21', undefined, {
    PerformanceStatistics: { dictionary: statistics },
  })
  const gpu = pci({ vendor: 0x1002, device: 0x73bf, class: 0x030000, tunnelled: true, link: linkRegister(4, 3) }, [
    accelerator,
  ])
  return intelMac({
    type: 3,
    boxes: [{ uid: 7n, model: 'Core X', vendor: 'Razer', version: 16, speed: 4, width: 2 }],
    pciBehind: [tunnel({ guid: 7n }, [gpu])],
  })
}

async function sample(tree: TreeNode): Promise<unknown> {
  const mac = await FakeMac.boot(tree)
  await using live = macosDriver({ source: mac.source() })
  await using dump = macosDriver({ source: plistSource(toPlist(tree)) })
  const [key = ''] = (await live.list()).devices.map((device) => device.key)
  const fromKernel = await live.health?.sample(key)
  const fromDump = await dump.health?.sample(key)
  expect({ ...fromKernel, atMs: 0 }).toEqual({ ...fromDump, atMs: 0 })
  return fromKernel
}

describe('health', () => {
  it('reads what the accelerator publishes', async () => {
    const statistics = {
      'Temperature(C)': 61n,
      'Total Power(W)': 180n,
      vramUsedBytes: 2n ** 30n,
      vramFreeBytes: 15n * 2n ** 30n,
    }
    expect(await sample(withStatistics(statistics))).toMatchObject({
      temperatureCelsius: 61,
      powerWatts: 180,
      memoryUsedBytes: 2 ** 30,
      memoryTotalBytes: 2 ** 34,
      linkRatio: 1,
    })
  })

  it('takes what a sleeping card and a dead sensor say for unknown', async () => {
    for (const statistics of [
      { 'Temperature(C)': 0n, 'Total Power(W)': 0n },
      { 'Temperature(C)': 128n },
      { vramUsedBytes: -1n },
    ]) {
      expect(await sample(withStatistics(statistics))).toMatchObject({
        temperatureCelsius: undefined,
        powerWatts: undefined,
        memoryUsedBytes: undefined,
        memoryTotalBytes: undefined,
      })
    }
  })

  it('compares the link with the best it has carried', async () => {
    const machine = await EGpuMac.boot()
    await using driver = machine.driver()
    expect(await driver.health?.sample(gpuKey)).toMatchObject({ linkRatio: 1, temperatureCelsius: undefined })
    machine.mac.set(machine.gpuId, 'IOPCIExpressLinkStatus', linkRegister(1, 3))
    const degraded = await driver.health?.sample(gpuKey)
    expect(degraded?.linkRatio).toBeGreaterThan(0)
    expect(degraded?.linkRatio).toBeLessThan(0.3)
  })
})

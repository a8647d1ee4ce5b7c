import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '@egpu/core'
import type { LinkReport } from '@egpu/core'
import { parseTotal } from '../../src/health/aer.ts'
import { linuxHealth } from '../../src/health/index.ts'
import { best, capacitiesOf, ratioOf } from '../../src/health/link-ratio.ts'
import { aorusKey, aorusLost, aorusPortB } from '../machines/cases/aorus.ts'
import { FakeMachine } from '../removal/fake-machine.ts'

const gpu = '0000:2e:00.0'

function put(machine: FakeMachine, address: string, name: string, text: string): void {
  writeFileSync(join(machine.sysfsRoot, 'bus/pci/devices', address, name), text)
}

function addSensors(machine: FakeMachine): void {
  const device = realpathSync(join(machine.sysfsRoot, 'bus/pci/devices', gpu))
  const sensors = join(device, 'hwmon/hwmon5')
  mkdirSync(sensors, { recursive: true })
  mkdirSync(join(machine.sysfsRoot, 'class/hwmon'), { recursive: true })
  const link = `../../${device.slice(realpathSync(machine.sysfsRoot).length + 1)}/hwmon/hwmon5`
  symlinkSync(link, join(machine.sysfsRoot, 'class/hwmon/hwmon5'))
  writeFileSync(join(sensors, 'temp1_input'), '61000\n')
  writeFileSync(join(sensors, 'temp1_crit'), '100000\n')
  writeFileSync(join(sensors, 'temp2_input'), '99000\n')
  writeFileSync(join(sensors, 'power1_average'), '142500000\n')
}

function healthOf({ sysfsRoot, survey }: FakeMachine): ReturnType<typeof linuxHealth> {
  return linuxHealth({ sysfsRoot, survey, clock: systemClock })
}

describe('a sample', () => {
  it('has temperature, limit, power, memory, and the errors of the whole path', async () => {
    using machine = new FakeMachine(aorusPortB)
    addSensors(machine)
    put(machine, gpu, 'mem_info_vram_used', '1073741824\n')
    put(machine, gpu, 'mem_info_vram_total', '34359738368\n')
    put(machine, gpu, 'aer_dev_correctable', 'RxErr 1\nBadTLP 0\nTOTAL_ERR_COR 1\n')
    put(machine, '0000:2d:00.0', 'aer_dev_correctable', 'RxErr 40\nTOTAL_ERR_COR 40\n')
    put(machine, '0000:00:07.2', 'aer_dev_fatal', 'Undefined 0\nTOTAL_ERR_FATAL 2\n')
    expect(await healthOf(machine).sample(aorusKey)).toMatchObject({
      atMs: expect.any(Number) as number,
      temperatureCelsius: 61,
      temperatureLimitCelsius: 100,
      powerWatts: 142.5,
      memoryUsedBytes: 2 ** 30,
      memoryTotalBytes: 2 ** 35,
      correctableErrors: 41,
      nonfatalErrors: undefined,
      fatalErrors: 2,
      linkRatio: 1,
    })
  })

  it('asks nothing of a sleeping GPU', async () => {
    using machine = new FakeMachine(aorusPortB)
    addSensors(machine)
    put(machine, gpu, 'power/runtime_status', 'suspended\n')
    const sample = await healthOf(machine).sample(aorusKey)
    expect(sample.temperatureCelsius).toBeUndefined()
    expect(sample.powerWatts).toBeUndefined()
    expect(sample.linkRatio).toBeUndefined()
  })

  it('rejects for a dead GPU and for an unknown key', async () => {
    using machine = new FakeMachine(aorusLost)
    await expect(healthOf(machine).sample(aorusKey)).rejects.toMatchObject({ code: 'EGPU_DEVICE_LOST' })
    await expect(healthOf(machine).sample('nonsense')).rejects.toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
  })
})

describe('the link ratio', () => {
  const link = (lanes: number, gtPerSecond: number, gbpsPerLane: number): LinkReport => ({
    trained: { toDevice: { lanes: 2, gbpsPerLane }, fromDevice: { lanes: 2, gbpsPerLane } },
    hops: [
      { id: 'tunnel', kind: 'virtual', lanes: 4, gtPerSecond: 2.5 },
      { id: 'slot', kind: 'real', lanes, gtPerSecond },
    ],
  })

  it('falls with lost lanes and with a slower cable, not with an idle link', () => {
    const peak = best(best(new Map(), capacitiesOf(link(4, 16, 20))), capacitiesOf(link(4, 2.5, 20)))
    expect(ratioOf(capacitiesOf(link(4, 2.5, 20)), peak)).toBe(1)
    expect(ratioOf(capacitiesOf(link(2, 16, 20)), peak)).toBe(0.5)
    expect(ratioOf(capacitiesOf(link(4, 16, 10)), peak)).toBe(0.5)
    expect(ratioOf(capacitiesOf(undefined), peak)).toBeUndefined()
  })
})

it('reads totals of AER counters and nothing else', () => {
  expect(parseTotal('RxErr 3\nTOTAL_ERR_COR 17\n', 'TOTAL_ERR_COR')).toBe(17)
  expect(parseTotal('TOTAL_ERR_CORRUPT 17\n', 'TOTAL_ERR_COR')).toBeUndefined()
  expect(parseTotal('TOTAL_ERR_COR -1\n', 'TOTAL_ERR_COR')).toBeUndefined()
  expect(parseTotal(undefined, 'TOTAL_ERR_COR')).toBeUndefined()
})

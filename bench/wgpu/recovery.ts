import { protectDevice, protectionOf, wgpuDriver } from '@egpu/driver-wgpu'
import type { ProtectionEvent } from '@egpu/driver-wgpu'
import { startSteps } from '../../packages/driver-wgpu/test/support/workload.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { control } from './rig.ts'

const losses = 200

/**
 * From the call that loses the device to the application's next result. A checkpoint lies right before, so nothing has
 * to be done again, and what there is to upload is 16 KiB.
 */
async function recover(): Promise<{ readonly detection: readonly number[]; readonly rto: readonly number[] }> {
  let lostAt = 0
  const detection: number[] = []
  const rto: number[] = []
  let heard: (event: ProtectionEvent) => void = () => {}
  const device = await protectDevice({ onEvent: (event) => heard(event), checkpoint: { intervalMs: Infinity } })
  const steps = startSteps(device)
  heard = ({ type }) => {
    if (type === 'lost') detection.push(performance.now() - lostAt)
  }
  for (let at = 0; at < losses; at += 1) {
    steps.step()
    await protectionOf(device).checkpoint()
    control.loseAt('submit', 1)
    lostAt = performance.now()
    steps.step()
    await device.queue.onSubmittedWorkDone()
    rto.push(performance.now() - lostAt)
  }
  device.destroy()
  await device.lost
  return { detection, rto: rto.slice(5) }
}

/** How long an idle device takes to hear of its loss, over its heartbeat. */
async function idleDetection(intervalMs: number): Promise<readonly number[]> {
  const late: number[] = []
  await using driver = wgpuDriver({ heartbeat: { intervalMs } })
  const [target] = await driver.runtime.targets()
  for (let at = 0; at < 40; at += 1) {
    const open = await driver.runtime.open(target?.id ?? '')
    await new Promise((resolve) => setTimeout(resolve, 3 + (at % 7)))
    const lostAt = performance.now()
    control.lose()
    await Promise.all([open.lost, new Promise((resolve) => setTimeout(resolve, intervalMs))])
    control.heal()
    late.push((await open.lost).atMs - lostAt - intervalMs)
    await open.close()
  }
  return late
}

/** Share of a core that ten heartbeats a second take, from the CPU time of many in a row. */
async function heartbeatShare(): Promise<number> {
  await using driver = wgpuDriver({ heartbeat: { intervalMs: 1e6, idleIntervalMs: 1e6 } })
  const [target] = await driver.runtime.targets()
  const { handle } = await driver.runtime.open(target?.id ?? '')
  const beats = 5000
  const begun = process.cpuUsage()
  for (let at = 0; at < beats; at += 1) {
    handle.queue.submit([])
    await handle.queue.onSubmittedWorkDone()
  }
  const { user, system } = process.cpuUsage(begun)
  return ((user + system) / beats / 1e6) * 10
}

export async function measure(): Promise<Figure[]> {
  const { detection, rto } = await recover()
  const idle = await idleDetection(20)
  const share = await heartbeatShare()
  const [p50, p99] = [percentile(rto, 0.5), percentile(rto, 0.99)]
  const [found, late] = [percentile(detection, 0.99), percentile(idle, 0.99)]
  return [
    { figure: 'cold RTO p50', value: p50, unit: 'ms' },
    { figure: 'cold RTO p99', value: p99, unit: 'ms', bar: '<= 150 ms', ratio: p99 / 150, pass: p99 <= 150 },
    { figure: 'detection while busy p99', value: found, unit: 'ms', bar: '<= 1 ms', pass: found <= 1 },
    {
      figure: 'detection while idle p99, over the heartbeat',
      value: late,
      unit: 'ms',
      against: 'heartbeat of 20 ms',
      bar: '<= 1 ms',
      pass: late <= 1,
    },
    { figure: 'heartbeat at 10 Hz', value: share * 100, unit: '% of a core', bar: '<= 0.02 %', pass: share <= 0.0002 },
  ]
}

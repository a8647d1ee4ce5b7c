import { Heartbeat } from '../../../packages/driver-wgpu/src/device/heartbeat.ts'
import { percentile } from '../../figure.ts'
import type { Figure } from '../../figure.ts'

const intervalMs = 5
const beats = 200

/** CPU time of a heartbeat at 10 Hz, all threads of this process together, over a timer of the same rate. */
export async function heartbeatFigure(device: GPUDevice): Promise<Figure> {
  const submit = (): void => device.queue.submit([])
  const ask = (): Promise<unknown> => device.queue.onSubmittedWorkDone()
  const [beat, bare, question] = [
    await cost(() => {
      // Asked so seldom that the questions do not count here.
      const heartbeat = new Heartbeat(device.queue, { intervalMs, idleIntervalMs: intervalMs, hangMs: 1e6 }, () => {})
      return () => heartbeat.stop()
    }),
    await cost(() => every(intervalMs, submit)),
    await cost(() => every(intervalMs, () => void ask())),
  ]
  // Ten beats, and a question after a quarter of the 10 s that work may take.
  const share = (10 * beat + question / 2.5) / 1e6
  return {
    figure: 'heartbeat at 10 Hz',
    value: share * 100,
    unit: '% of a core',
    against: `an empty submit by itself, ${((10 * bare) / 1e4).toFixed(4)} % of a core; both over a timer that does nothing`,
    ratio: beat / bare,
    bar: '<= 0.02 %',
    pass: share <= 0.0002,
  }
}

/** Microseconds for each beat, over a timer that does nothing; `start` returns what ends it. */
async function cost(start: () => () => void): Promise<number> {
  const costs: number[] = []
  for (let round = 0; round < 3; round += 1) {
    const idle = await spent(() => every(intervalMs, () => {}))
    costs.push((await spent(start)) - idle)
  }
  return percentile(costs, 0.5) / beats
}

async function spent(start: () => () => void): Promise<number> {
  const begun = process.cpuUsage()
  const stop = start()
  await new Promise((resolve) => setTimeout(resolve, beats * intervalMs))
  stop()
  const { user, system } = process.cpuUsage(begun)
  return user + system
}

function every(ms: number, action: () => void): () => void {
  const timer = setInterval(action, ms)
  return () => clearInterval(timer)
}

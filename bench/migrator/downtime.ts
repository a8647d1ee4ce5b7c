import { EGpuManager } from '@egpu/core'
import { simDriver, VirtualClock } from '@egpu/driver-sim'
import { WorkloadMigrator } from '@egpu/migrator'
import { PagedWork } from '../../packages/migrator/test/helpers/paged-work.ts'
import { precopyModel } from '../../packages/migrator/src/transfer/precopy.ts'
import type { Figure } from '../figure.ts'

const targetMs = 100
const pages = 4_096
const pageBytes = 8_192
const stateBytes = pages * pageBytes
const stepMs = 1

/** Dirty pages per step and the share of the bandwidth that they are. */
const shares = [0.1, 0.25, 0.5] as const

/** How long a graceful move makes the work stand still, against what the model of copying ahead says. */
export async function measure(): Promise<Figure[]> {
  const still = await move(0)
  const figures: Figure[] = []
  for (const share of shares) {
    const perStep = Math.round((share * still.bytesPerMs * stepMs) / pageBytes)
    const { downtimeMs, msPerStep } = await move(perStep)
    const dirtyBytesPerMs = (perStep * pageBytes) / msPerStep
    let rounds = 1
    while (precopyModel(stateBytes, still.bytesPerMs, dirtyBytesPerMs, rounds).downtimeMs > targetMs) rounds += 1
    const model = precopyModel(stateBytes, still.bytesPerMs, dirtyBytesPerMs, rounds)
    // What a move takes that has nothing left to copy: the last freeze, the check, the switch.
    const predictedMs = model.downtimeMs + still.downtimeMs
    const ratio = downtimeMs / predictedMs
    const told = `dirty rate ${(dirtyBytesPerMs / still.bytesPerMs).toFixed(2)} of the bandwidth`
    figures.push(
      {
        figure: `downtime of a graceful move, ${told}`,
        value: downtimeMs,
        unit: 'ms of virtual time',
        against: `${(stateBytes / still.bytesPerMs).toFixed(0)} ms to copy the whole state`,
        ratio: downtimeMs / targetMs,
        bar: `<= ${targetMs} ms`,
        pass: downtimeMs <= targetMs,
      },
      {
        figure: `downtime against the model, ${told}`,
        value: downtimeMs,
        unit: 'ms of virtual time',
        against: `${predictedMs.toFixed(1)} ms predicted after ${rounds} rounds`,
        ratio,
        bar: 'within 10 %',
        pass: Math.abs(ratio - 1) <= 0.1,
      },
    )
  }
  return figures
}

interface Moved {
  readonly downtimeMs: number
  readonly msPerStep: number
  /** How fast the state was copied while the work went on; what the model takes for the bandwidth if nothing changes. */
  readonly bytesPerMs: number
}

async function move(perStep: number): Promise<Moved> {
  const clock = new VirtualClock()
  const driver = simDriver({
    clock,
    enclosures: ['A', 'B'].map((name) => ({ plugged: true, gpus: [{ id: `gpu-${name}`, name }] })),
  })
  for (const box of driver.machine.enclosures) box.degradeLink({ lanes: 1, gbpsPerLane: 0.8 })
  const manager = await clock.runUntil(EGpuManager.create({ drivers: [driver], clock }))
  const migrator = new WorkloadMigrator(manager, { downtimeMs: targetMs, checkpointIntervalMs: 1e9 })
  const work = new PagedWork({ clock, pages, pageBytes, perStep, stepMs, steps: 1e9 })
  let stoppedAt = 0
  let downtimeMs = 0
  let stagedAt = 0
  let wentOn = false
  const stage = work.stage.bind(work)
  work.stage = (target) => {
    stagedAt = clock.now()
    return stage(target)
  }
  const suspend = work.suspend.bind(work)
  const resume = work.resume.bind(work)
  work.suspend = () => {
    stoppedAt = clock.now()
    return suspend()
  }
  work.resume = () => {
    if (wentOn) downtimeMs = clock.now() - stoppedAt
    wentOn = true
    resume()
  }
  const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
  await clock.runUntil(run.started)
  const began = { at: clock.now(), progress: work.progress }
  await clock.advance(100)
  const msPerStep = (clock.now() - began.at) / (work.progress - began.progress)
  await clock.runUntil(run.moveTo('sim/sim:gpu-B'))
  const bytesPerMs = stateBytes / (stoppedAt - stagedAt)
  run.finished.catch(() => undefined)
  await clock.runUntil(Promise.all([migrator.close(), manager.close()]).catch(() => undefined))
  return { downtimeMs, msPerStep, bytesPerMs }
}

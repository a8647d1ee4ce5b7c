import { protectDevice, protectionOf, wgpuDriver } from '../../src/index.ts'
import type { ProtectionEvent } from '../../src/index.ts'
import type { LossControl } from '../../src/testing/index.ts'
import type { Workload } from '../protect/workloads/workload.ts'

/** What a workload gives on a device that is not protected. */
export async function onBareDevice(workload: Workload): Promise<Uint8Array> {
  await using driver = wgpuDriver()
  const [target] = await driver.runtime.targets()
  const open = await driver.runtime.open(target?.id ?? '')
  return await workload.run(open.handle, () => {})
}

/** One at every pause: the workload waits for it, or works on while it is taken. */
export type Checkpoints = 'waiting' | 'alongside'

export interface Outcome {
  readonly result: Uint8Array
  readonly losses: number
  readonly troubles: readonly ProtectionEvent[]
}

/** Runs a workload on a protected device; `arm`, `pause` and `paused` are where the device is taken away. */
export async function onProtectedDevice(
  workload: Workload,
  {
    arm = () => {},
    pause = () => {},
    paused = () => {},
    checkpoint,
  }: { arm?: () => void; pause?: () => void; paused?: () => void; checkpoint?: Checkpoints | undefined },
): Promise<Outcome> {
  const troubles: ProtectionEvent[] = []
  const expected = new Set(['lost', 'recovered', 'checkpointed'])
  const device = await protectDevice({
    checkpoint: { intervalMs: Number.POSITIVE_INFINITY, chunkBytes: 4096 },
    heartbeat: { intervalMs: 1000 },
    // A second loss in the middle of a recovery is as frequent here as the first.
    backoffMs: [0, 10],
    onEvent: (event) => {
      if (!expected.has(event.type)) troubles.push(event)
    },
  })
  const protection = protectionOf(device)
  arm()
  let saving: Promise<boolean> | undefined
  const result = await workload.run(device, async () => {
    pause()
    if (checkpoint !== undefined) saving = protection.checkpoint()
    if (checkpoint === 'waiting') await saving
    paused()
  })
  await saving
  // The loss may have hit the last thing there was, which nobody waits for.
  await device.queue.onSubmittedWorkDone()
  device.destroy()
  await device.lost
  return { result, losses: protection.stats.losses, troubles }
}

/**
 * Runs a workload once for each place where it waits, loses the device there, and compares. With checkpoints, one is
 * taken right before. Returns the number of places.
 */
export async function loseAtEveryAwait(
  workload: Workload,
  control: LossControl,
  checkpoint: Checkpoints | undefined,
): Promise<{ readonly awaits: number; readonly wrong: readonly object[] }> {
  const reference = await onBareDevice(workload)
  let awaits = 0
  await onProtectedDevice(workload, { pause: () => void (awaits += 1) })
  const wrong: object[] = []
  for (let at = 1; at <= awaits; at += 1) {
    let passed = 0
    const lose = (): void => {
      if (passed === at) control.loseAt('submit', 1)
    }
    const pause = (): void => {
      passed += 1
      if (checkpoint === undefined) lose()
    }
    control.heal()
    const outcome = await onProtectedDevice(workload, {
      pause,
      checkpoint,
      ...(checkpoint === undefined ? {} : { paused: lose }),
    })
    const { result, losses, troubles } = outcome
    const isSame = Buffer.compare(result, reference) === 0
    if (!isSame || losses !== 1 || troubles.length > 0) wrong.push({ at, isSame, losses, troubles })
  }
  return { awaits, wrong }
}

import { EGpuError, type EGpuManager } from '@egpu/core'
import { leavingText } from '../output/cuda-text.ts'
import { deviceName } from '../output/device-text.ts'
import { inTheWay } from '../output/not-ejected.ts'
import { plain } from '../output/text.ts'
import type { DashboardMachine } from './machine.ts'
import type { EjectLine, EjectPlan } from './protocol.ts'

/** Tens of gigabytes over a cable, and host memory that may have to be found first. */
const deadlineMs = 30 * 60_000

/** What an eject would do, to the programs on the GPU as well. Changes nothing. */
export async function ejectPlan(
  { manager, cuda }: DashboardMachine,
  id: string,
  signal: AbortSignal,
): Promise<EjectPlan> {
  const leavings = (await cuda?.plan(manager.get(id), signal)) ?? []
  const plan = await manager.planDisconnect(id, { signal })
  // Who leaves first does not stand in the way.
  const leaving = new Set(leavings.flatMap(({ processes }) => processes.map(({ pid }) => pid)))
  const holders = plan.removal.holders.filter(({ pid }) => !leaving.has(pid))
  return {
    ...plan,
    // It has its own lines, and none where no program is on the GPU.
    guests: plan.guests.filter((name) => name !== cuda?.name),
    removal: { ...plan.removal, holders },
    programs: leavings.map((one) => ({ text: leavingText(one), stays: one.how === 'stay' })),
  }
}

/** Ejects a device and tells each step as it happens, and last how it ended. Never rejects because of the device. */
export async function ejectLines(
  manager: EGpuManager,
  id: string,
  signal: AbortSignal,
  tell: (line: EjectLine) => Promise<void>,
): Promise<void> {
  let told: Promise<void> = Promise.resolve()
  const say = (line: EjectLine): void => {
    told = told.then(() => tell(line))
  }
  try {
    const result = await manager.safeDisconnect(id, {
      signal,
      deadlineMs,
      onStep: ({ title }, status) => say({ step: title, status }),
    })
    const name = deviceName(result.device)
    const text = `It is safe to unplug ${name}.`
    if (result.safeToUnplug) say({ safeToUnplug: true, text, details: [...result.moved, ...result.notes].map(plain) })
    else say({ safeToUnplug: false, text: `${name} was not ejected.`, details: inTheWay(result) })
  } catch (error) {
    say({ safeToUnplug: false, text: EGpuError.is(error) ? error.message : String(error), details: [] })
  }
  await told
}

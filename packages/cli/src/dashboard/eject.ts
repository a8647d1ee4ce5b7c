import { EGpuError, type EGpuManager } from '@egpu/core'
import { deviceName } from '../output/device-text.ts'
import type { EjectLine } from './protocol.ts'

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
      onStep: ({ title }, status) => say({ step: title, status }),
    })
    const name = deviceName(result.device)
    if (result.safeToUnplug) say({ safeToUnplug: true, text: `It is safe to unplug ${name}.`, details: result.notes })
    else {
      const holders = result.holders.map(({ pid, name, holds }) => `${name ?? 'a process'} (pid ${pid}) holds ${holds}`)
      const vetoes = result.vetoes.map(({ guest, reason }) => `${guest} stays: ${reason}`)
      say({ safeToUnplug: false, text: result.reason, details: [...holders, ...vetoes, ...result.refusals] })
    }
  } catch (error) {
    say({ safeToUnplug: false, text: EGpuError.is(error) ? error.message : String(error), details: [] })
  }
  await told
}

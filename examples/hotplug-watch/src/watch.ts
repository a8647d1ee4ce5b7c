import { EGpuManager, type EGpuDevice } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'

/** Says what is there and what happens to it, one line each, until `signal` fires. */
export async function watch(
  drivers: readonly EGpuDriver[],
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  await using manager = await EGpuManager.create({ drivers })
  for (const { name, state, reason } of manager.drivers)
    say(`driver ${name}: ${state}${reason === undefined ? '' : `, ${reason}`}`)
  for (const device of manager.devices) say(`there already: ${about(device)}`)
  const events = manager.events({
    signal,
    types: [
      'enclosure-connected',
      'connected',
      'ready',
      'leaving',
      'lost',
      'disconnected',
      'returned',
      'link-speed-changed',
    ],
  })
  await manager.startMonitoring({ signal })
  for await (const event of events) {
    const subject = 'device' in event ? about(event.device) : (event.enclosure.name ?? event.enclosure.id)
    const why = 'reason' in event ? `, because ${event.reason}` : ''
    say(`${event.type}: ${subject}${why}`)
  }
}

/** Everything but the id may be unknown. */
function about({ id, gpu, verdict, link }: EGpuDevice): string {
  const speed = link?.effectiveGBps?.toDevice
  return `${gpu.name ?? id} (${verdict.conclusion}${speed === undefined ? '' : `, about ${speed.toFixed(1)} GB/s`})`
}

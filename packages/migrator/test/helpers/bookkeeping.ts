import type { ComputeTarget, EGpuEvent, OpenTarget } from '@egpu/core'
import type { SimDriver } from '@egpu/driver-sim'
import type { Mixer } from './mixer.ts'

/** What is wrong with the ends of migrations: one that started has to end exactly once. */
export function migrationBreaches(events: readonly EGpuEvent[]): string[] {
  const open = new Set<string>()
  const ended = new Set<string>()
  const breaches: string[] = []
  for (const event of events) {
    if (event.type === 'migration-started') {
      const { migrationId } = event.migration
      if (open.has(migrationId) || ended.has(migrationId)) breaches.push(`${migrationId} started twice`)
      open.add(migrationId)
    }
    if (event.type !== 'migration-completed' && event.type !== 'migration-failed') continue
    const { migrationId } = event.migration
    if (ended.has(migrationId)) breaches.push(`${migrationId} ended twice`)
    open.delete(migrationId)
    ended.add(migrationId)
  }
  return [...breaches, ...[...open].map((id) => `${id} never ended`)]
}

/** Calls that came in an order the contract does not allow. */
export function contractBreaches({ calls, doubleOwners }: Pick<Mixer, 'calls' | 'doubleOwners'>): string[] {
  let isPlaced = false
  let isWorking = false
  const breaches = doubleOwners === 0 ? [] : [`${doubleOwners} double owners`]
  for (const [place, call] of calls.entries()) {
    const [name] = call.split(' ')
    const isAllowed =
      (name !== 'restore' || !isPlaced) &&
      (name !== 'resume' || (isPlaced && !isWorking)) &&
      (name !== 'suspend' || isPlaced)
    if (!isAllowed) breaches.push(`${call} after ${calls.slice(Math.max(0, place - 6), place).join(', ')}`)
    if (name === 'restore' || name === 'release' || name === 'adopt') isPlaced = name !== 'release'
    if (name !== 'freeze' && name !== 'stage') isWorking = name === 'resume'
  }
  return breaches
}

/** Puts something between the manager and the opening of the simulator's targets. */
export function onOpen(driver: SimDriver, change: (open: OpenTarget) => Promise<OpenTarget>): void {
  const { runtime } = driver
  if (runtime === undefined) throw new Error('the simulator has a runtime')
  const open = runtime.open.bind(runtime)
  runtime.open = async (id, options) => change(await open(id, options))
}

/** The same open target, telling other facts about itself. */
export function disguised(open: OpenTarget, facts: Partial<ComputeTarget>): OpenTarget {
  return {
    target: { ...open.target, ...facts },
    epoch: open.epoch,
    handle: open.handle,
    lost: open.lost,
    close: () => open.close(),
    [Symbol.asyncDispose]: () => open.close(),
  }
}

import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, PlanOutcome, PlanStep, RunPlanOptions, SystemPlan } from '@egpu/core'
import type { SafeRemovalCapability } from '@egpu/core/driver'
import type { Card } from './card.ts'
import type { Box } from './enclosure.ts'
import type { Machine } from './machine.ts'

/** One step with what it does and how it is taken back. */
interface Action {
  readonly step: PlanStep
  /** What `failEject` calls it. */
  readonly name: string
  readonly card: Card
  do(): void
  undo(): void
}

/** Everything behind the cable goes together: every GPU of the enclosure is unbound and removed, then the box shut. */
export function safeRemovalOf(machine: Machine, find: (key: string) => Card, stepMs: number): SafeRemovalCapability {
  return {
    async plan(key: string, { signal }: AbortOptions = {}): Promise<SystemPlan> {
      signal?.throwIfAborted()
      const card = find(key)
      const box = machine.boxOf(card)
      return {
        key,
        steps: box === undefined ? [] : actionsOf(box).map((action) => action.step),
        holders: holdersOf(box, card),
        refusals: box === undefined ? [`${card.name} is built in: there is no cable to unplug.`] : [],
        notes: card.stage === 'wedged' ? [`${card.name} does not answer: if removal fails, pull the cable.`] : [],
      }
    },

    async run(plan: SystemPlan, { signal, onStep }: RunPlanOptions = {}): Promise<PlanOutcome> {
      signal?.throwIfAborted()
      const card = find(plan.key)
      const box = machine.boxOf(card)
      const holders = holdersOf(box, card)
      if (box === undefined) return refused(`${card.name} is built in: there is no cable to unplug.`)
      if (holders.length > 0) {
        const names = holders.map(({ pid, name = 'a process', holds }) => `${name} (pid ${pid}: ${holds})`)
        return { ...refused(`still in use by ${names.join(', ')}`), holders }
      }
      const actions = actionsOf(box)
      const done: Action[] = []
      const takeBack = (): string[] => {
        const taken = done.filter((action) => action.step.undo !== undefined).reverse()
        for (const action of taken) {
          action.undo()
          onStep?.(action.step, 'undone')
        }
        return taken.map((action) => action.step.id)
      }
      for (const each of box.cards) each.announceLeaving('safe removal')
      for (const action of actions) {
        onStep?.(action.step, 'started')
        try {
          if (stepMs > 0) await machine.clock.sleep(stepMs, { signal })
          act(action, box)
        } catch (error) {
          onStep?.(action.step, 'failed')
          const undone = takeBack()
          // Called off before the first step: it is as it was.
          if (box.port !== undefined && undone.length === 0) for (const each of box.cards) each.changed()
          if (signal?.aborted === true) throw signal.reason
          const reason = EGpuError.is(error) ? error.message : String(error)
          return { done: false, failedStep: action.step.id, reason, undone, holders: holdersOf(box, card) }
        }
        done.push(action)
        onStep?.(action.step, 'done')
      }
      return { done: true }
    },
  }
}

function act(action: Action, box: Box): void {
  const { card, name } = action
  if (box.port === undefined) {
    throw new EGpuError(EGpuErrorCode.DeviceLost, `${card.name} was unplugged during its removal`)
  }
  const failing = card.failingStep
  if (failing?.step === name) {
    card.failingStep = undefined
    throw new EGpuError(EGpuErrorCode.DeviceBusy, failing.reason)
  }
  action.do()
}

function actionsOf(box: Box): Action[] {
  const unbind = box.cards.map((card): Action => ({
    step: {
      id: `unbind:${card.key}`,
      title: `Unbind the driver of ${card.name}.`,
      undo: `Bind the driver of ${card.name} again.`,
    },
    name: 'unbind',
    card,
    do: () => card.setStage('present'),
    // A card that is still on its way back to the bus gets its driver by itself.
    undo: () => {
      if (card.listed) card.setStage('ready')
    },
  }))
  const remove = box.cards.map((card): Action => ({
    step: { id: `remove:${card.key}`, title: `Remove ${card.name} from the bus.`, undo: 'Rescan the bus.' },
    name: 'remove',
    card,
    do: () => card.leaveBus(true),
    undo: () => void card.arrive(),
  }))
  const [last] = box.cards.slice(-1)
  if (last === undefined || !box.hasRouter) return [...unbind, ...remove]
  const shut: Action = {
    step: { id: 'deauthorize', title: `Stop PCI Express to ${box.name ?? 'the enclosure'}.` },
    name: 'deauthorize',
    card: last,
    do: () => box.deauthorize(),
    undo: () => box.authorize(),
  }
  return [...unbind, ...remove, shut]
}

function holdersOf(box: Box | undefined, card: Card): SystemPlan['holders'] {
  return (box?.cards ?? [card]).flatMap((each) => each.holders)
}

function refused(reason: string): Extract<PlanOutcome, { done: false }> {
  return { done: false, failedStep: undefined, reason, undone: [], holders: [] }
}

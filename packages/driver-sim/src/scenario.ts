import type { AbortOptions } from '@egpu/core'
import type { SimMachine } from './machine.ts'
import type { Random } from './random.ts'

/** One thing that happens to the machine. Enclosures go by id, GPUs by key. */
export type ScenarioAction =
  | { readonly do: 'plug'; readonly enclosure: string; readonly port?: string | undefined }
  | { readonly do: 'yank'; readonly enclosure: string }
  | { readonly do: 'authorize'; readonly enclosure: string }
  | { readonly do: 'deauthorize'; readonly enclosure: string }
  | {
      readonly do: 'degrade-link'
      readonly enclosure: string
      readonly lanes?: number | undefined
      readonly gbpsPerLane?: number | undefined
    }
  | { readonly do: 'restore-link'; readonly enclosure: string }
  | { readonly do: 'heat'; readonly gpu: string; readonly celsius: number }
  | { readonly do: 'slow-fan'; readonly gpu: string; readonly share: number }
  | { readonly do: 'leak-memory'; readonly gpu: string; readonly bytes: number }
  | {
      readonly do: 'count-errors'
      readonly gpu: string
      readonly correctable?: number | undefined
      readonly nonfatal?: number | undefined
      readonly fatal?: number | undefined
    }
  | { readonly do: 'wedge'; readonly gpu: string; readonly silent?: boolean | undefined }
  | { readonly do: 'reset'; readonly gpu: string }
  | { readonly do: 'overflow' }

/** An action and when it happens, in milliseconds after the scenario began. */
export type ScenarioStep = ScenarioAction & { readonly atMs: number }

/**
 * Plays a scenario on the machine's clock; resolves after the last step. Steps may be in any order; those of the same
 * time happen in the order given. Rejects with what a step threw, a GPU that is not there for one, or the abort reason.
 */
export async function playScenario(
  machine: SimMachine,
  steps: readonly ScenarioStep[],
  { signal }: AbortOptions = {},
): Promise<void> {
  const startedMs = machine.clock.now()
  for (const step of steps.toSorted((one, other) => one.atMs - other.atMs)) {
    await machine.clock.sleep(Math.max(0, startedMs + step.atMs - machine.clock.now()), { signal })
    act(machine, step)
  }
}

function act(machine: SimMachine, action: ScenarioAction): void {
  switch (action.do) {
    case 'plug':
      return machine.enclosure(action.enclosure).plug({ port: action.port })
    case 'yank':
      return machine.enclosure(action.enclosure).yank()
    case 'authorize':
      return machine.enclosure(action.enclosure).authorize()
    case 'deauthorize':
      return machine.enclosure(action.enclosure).deauthorize()
    case 'degrade-link': {
      const { lanes, gbpsPerLane } = action
      return machine.enclosure(action.enclosure).degradeLink({ lanes, gbpsPerLane })
    }
    case 'restore-link':
      return machine.enclosure(action.enclosure).restoreLink()
    case 'heat':
      return machine.gpu(action.gpu).heat(action.celsius)
    case 'slow-fan':
      return machine.gpu(action.gpu).slowFan(action.share)
    case 'leak-memory':
      return machine.gpu(action.gpu).leakMemory(action.bytes)
    case 'count-errors':
      return machine.gpu(action.gpu).countErrors(action)
    case 'wedge':
      return machine.gpu(action.gpu).wedge({ silent: action.silent })
    case 'reset':
      return machine.gpu(action.gpu).reset()
    case 'overflow':
      return machine.overflow()
  }
}

export interface RandomScenarioOptions {
  readonly random: Random
  /** Ids of enclosures that are plugged in when it begins. */
  readonly enclosures: readonly string[]
  /** The last disturbance comes before this. */
  readonly durationMs: number
  /** How many disturbances: 5 by default. Each ends again, so there are twice as many steps. */
  readonly disturbances?: number | undefined
}

/**
 * Pulled cables, slow links and dropped events at random times, each made good again: when it is over, every enclosure
 * is plugged in and runs at full speed. The same `random` gives the same scenario.
 */
export function randomScenario(options: RandomScenarioOptions): ScenarioStep[] {
  const { random, enclosures, durationMs, disturbances = 5 } = options
  const steps: ScenarioStep[] = []
  // One slot per disturbance, so that no cable is pulled twice at a time.
  const slotMs = durationMs / disturbances
  for (let slot = 0; slot < disturbances; slot += 1) {
    const atMs = slotMs * (slot + random.between(0, 0.5))
    const endMs = slotMs * (slot + random.between(0.5, 1))
    const enclosure = random.pick(enclosures)
    const kind = random.pick(['yank', 'yank', 'yank', 'degrade-link', 'overflow'] as const)
    if (kind === 'yank') steps.push({ atMs, do: 'yank', enclosure }, { atMs: endMs, do: 'plug', enclosure })
    if (kind === 'degrade-link') {
      steps.push({ atMs, do: 'degrade-link', enclosure }, { atMs: endMs, do: 'restore-link', enclosure })
    }
    if (kind === 'overflow') steps.push({ atMs, do: 'overflow' })
  }
  return steps
}

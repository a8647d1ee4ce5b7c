import { afterEach, expect, test } from 'vitest'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { onBareDevice, onProtectedDevice } from '../support/run-workload.ts'
import { Dice } from '../protect/workloads/dice.ts'
import { randomProgram } from '../protect/workloads/random-program.ts'

const control = useRealVulkan()

afterEach(() => {
  const left = heldDeviceCount() + control.liveDevices
  if (left !== 0) throw new Error(`${left} devices were left behind`)
})

/** `EGPU_SEEDS=100-199` tries others than the few that are always tried. */
const [first = 1, last = first + 3] = (process.env['EGPU_SEEDS'] ?? '1').split('-').map(Number)
const seeds = Array.from({ length: last - first + 1 }, (_, n) => first + n)

test.each(seeds)(
  'a random program gives the same wherever the device is lost (seed %i)',
  { timeout: 120_000 },
  async (seed) => {
    const program = randomProgram(seed)
    const dice = new Dice(seed ^ 0x5eed)
    const reference = await onBareDevice(program)
    for (const checkpoint of [undefined, 'waiting', 'alongside'] as const) {
      // Without a loss, then with one somewhere, then with several.
      for (const chance of [0, 10, 3]) {
        let mayLose = chance > 0
        const lose = (): void => {
          if (!mayLose || dice.below(chance) !== 0) return
          control.loseAt(dice.pick(['submit', 'submit', 'map', 'fence']), 1 + dice.below(4))
          mayLose = chance < 10
        }
        control.heal()
        const outcome = await onProtectedDevice(program, { arm: lose, pause: lose, paused: lose, checkpoint })
        const isSame = Buffer.compare(outcome.result, reference) === 0
        expect({ checkpoint, chance, isSame, troubles: outcome.troubles }).toEqual({
          checkpoint,
          chance,
          isSame: true,
          troubles: [],
        })
      }
    }
  },
)

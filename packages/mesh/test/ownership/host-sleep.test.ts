import { systemClock } from '@egpu/core'
import { VirtualClock } from '@egpu/driver-sim'
import { describe, expect, it } from 'vitest'
import { sleepMeter } from '../../src/ownership/host-sleep.ts'

describe('how long a host slept', () => {
  it('is what its uptime went on by while its clock stood still', async () => {
    const clock = new VirtualClock()
    let sleptMs = 0
    const meter = sleepMeter(clock, () => 5_000 + clock.now() + sleptMs)
    await clock.advance(60_000)
    expect(meter.sleptMs()).toBe(0)
    // Clocks are not that exact.
    sleptMs = 900
    expect(meter.sleptMs()).toBe(0)
    sleptMs = 600_000
    expect(meter.sleptMs()).toBe(600_000)
    expect(sleepMeter(clock, () => clock.now() + sleptMs).sleptMs()).toBe(0)
  })

  it('is nothing while it is awake, and in simulated time', async () => {
    const [real, simulated] = [sleepMeter(systemClock), sleepMeter(new VirtualClock())]
    await systemClock.sleep(1_500)
    expect(real.sleptMs()).toBe(0)
    expect(simulated.sleptMs()).toBe(0)
  })
})

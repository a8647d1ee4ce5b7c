import { driverCompliance } from '@egpu/core/testing'
import { describe, it } from 'vitest'
import { simRig } from './sim-rig.ts'

driverCompliance({ describe, it }, () => simRig())

describe('with answers that take a while', () => {
  driverCompliance({ describe, it }, () => simRig(undefined, { timing: { answerMs: 5, ejectStepMs: 1 } }))
})

describe('with a GPU that comes up in stages', () => {
  driverCompliance({ describe, it }, async () => {
    const rig = simRig(undefined, { timing: { presentAfterMs: 2, readyAfterMs: 2 } })
    while ((await rig.driver.list()).devices.filter((device) => device.stage === 'ready').length < 2) {
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    return rig
  })
})

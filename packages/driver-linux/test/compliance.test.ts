import { describe, it } from 'vitest'
import { driverCompliance } from '@egpu/core/testing'
import { recordedRig } from './recorded-rig.ts'

driverCompliance({ describe, it }, recordedRig, { patienceMs: 10_000 })

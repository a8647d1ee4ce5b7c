import type { DeathSign } from '../liveness.ts'
import { about, gpuName } from './rule.ts'
import type { FindingRule } from './rule.ts'

const meaning: Readonly<Record<DeathSign['sign'], string>> = {
  'link-unreadable': 'it does not answer any more',
  'bridge-unreadable': 'a bridge above it does not answer any more',
  'router-gone': 'the box it was in is gone',
  'router-unauthorized': 'the box it is in lost its authorization',
}

const onCable =
  'Unplug the cable first, then unload or unbind its driver; doing it the other way round can hang. Close what still uses it, and plug the box in again.'
const builtIn =
  'Do not unload or unbind its driver, which can hang: save your work and restart the machine. dmesg says what happened.'

/** `gpu-lost`: still listed, but off the bus. */
export const lostGpu: FindingRule = ({ gpus }) =>
  gpus.flatMap((surveyed) => {
    const { death } = surveyed
    if (death === undefined) return []
    return [
      {
        code: 'gpu-lost',
        severity: 'error' as const,
        ...about(surveyed),
        seen: `The ${gpuName(surveyed)} is still listed, but ${meaning[death.sign]}.`,
        advice: surveyed.verdict.conclusion === 'internal' ? builtIn : onCable,
        evidence: [{ source: death.source, value: death.value }],
      },
    ]
  })

import type { Finding } from '@egpu/core'
import type { RawEvent } from '../host/protocol.ts'

/** nvmlEventType* of nvml.h. */
const eventType = { xid: 0x8, gpuUnavailable: 0x4000, recoveryAction: 0x8000 } as const

/** What an event of NVML means for the device. */
export type EventMeaning =
  | { readonly kind: 'lost' | 'wedged'; readonly reason: string }
  | { readonly kind: 'finding'; readonly finding: Omit<Finding, 'deviceId'> }

/** https://docs.nvidia.com/deploy/xid-errors: those after which nothing on the GPU works any more. */
const fatalXids: ReadonlyMap<number, { readonly kind: 'lost' | 'wedged'; readonly what: string }> = new Map([
  [79, { kind: 'lost', what: 'the GPU has fallen off the bus' }],
  [119, { kind: 'wedged', what: "the GPU's system processor does not answer" }],
  [120, { kind: 'wedged', what: "the GPU's system processor has failed" }],
])

/** The others, as far as NVIDIA says what they mean. `error`: memory or the GPU itself; `warning`: look at the program. */
const knownXids: ReadonlyMap<number, { readonly severity: Finding['severity']; readonly what: string }> = new Map([
  [13, { severity: 'warning', what: 'a program made an invalid access on the GPU' }],
  [31, { severity: 'warning', what: 'a program accessed memory that is not there' }],
  [32, { severity: 'error', what: 'commands arrived damaged on the GPU: suspect the link or the cable' }],
  [43, { severity: 'warning', what: 'a program was stopped after it hung the GPU' }],
  [45, { severity: 'info', what: 'the work of a program that ended was torn down' }],
  [48, { severity: 'error', what: 'memory had an error that could not be corrected' }],
  [63, { severity: 'warning', what: 'a bad piece of memory is being taken out of use' }],
  [64, { severity: 'error', what: 'a bad piece of memory could not be taken out of use' }],
  [74, { severity: 'error', what: 'NVLink had an error' }],
  [94, { severity: 'warning', what: 'a memory error hit one program only' }],
  [95, { severity: 'error', what: 'a memory error may have hit every program on the GPU' }],
  [154, { severity: 'error', what: 'the driver asks for a repair of the GPU' }],
])

export function meaningOf({ type, data }: RawEvent): EventMeaning {
  if (type === eventType.gpuUnavailable) return { kind: 'lost', reason: 'NVIDIA reports the GPU as unavailable' }
  if (type === eventType.recoveryAction) return { kind: 'finding', finding: xidFinding(154) }
  const fatal = fatalXids.get(data)
  if (fatal !== undefined) return { kind: fatal.kind, reason: `Xid ${data}: ${fatal.what}` }
  return { kind: 'finding', finding: xidFinding(data) }
}

function xidFinding(xid: number): Omit<Finding, 'deviceId'> {
  const { severity, what } = knownXids.get(xid) ?? { severity: 'warning', what: 'something went wrong on the GPU' }
  return {
    code: 'nvidia-xid',
    severity,
    seen: `Xid ${xid}: ${what}`,
    advice:
      severity === 'error'
        ? 'Move the work off this GPU, then look the number up at https://docs.nvidia.com/deploy/xid-errors.'
        : 'If it comes back, look the number up at https://docs.nvidia.com/deploy/xid-errors.',
    evidence: [{ source: 'NVML event', value: String(xid) }],
  }
}

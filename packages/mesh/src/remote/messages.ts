import { EGpuError, EGpuErrorCode, RuntimeKind } from '@egpu/core'
import type { WorkloadNeeds } from '@egpu/core'
import { kind, type Kind } from '../arguments.ts'
import { asChunkRef } from '../bulk/chunk.ts'
import type { ChunkRef } from '../bulk/chunk.ts'
import type { BulkAddress } from '../bulk/server.ts'
import { asCount } from '../shape.ts'

/** Requests between two remote migrators. */
export const MessageType = {
  /** Can you run this? Asked before a byte moves. */
  Fit: 'migrate/fit',
  /** A checkpoint is here for you to pull; answered when it is committed. */
  Replica: 'migrate/replica',
  /** A token for one bulk connection. */
  Ticket: 'migrate/ticket',
  /** It is yours: acquire it and go on. Answered when it runs. */
  Take: 'migrate/take',
  /** The work is done: its checkpoints can go. */
  Forget: 'migrate/forget',
} as const

/** Which work, and by which right the sender speaks of it. */
export interface WorkNote {
  readonly workloadId: string
  readonly kind: string
  readonly token: number
}

export interface FitNote extends WorkNote {
  readonly needs: WorkloadNeeds
}

export interface ReplicaNote extends WorkNote {
  readonly offerId: string
  readonly address: BulkAddress
  readonly manifest: ChunkRef
  /** The receiver may take over by itself when the sender's host dies. */
  readonly isStandby: boolean
}

const mostNameLength = 1_024

type Fields = Readonly<Record<string, unknown>>

export function readWork(body: unknown): WorkNote {
  const { workloadId, kind, token } = fields(body)
  if (!Number.isSafeInteger(token) || (token as number) < 1) throw malformed(`${String(token)} is no fencing token`)
  return { workloadId: text(workloadId, 'workloadId'), kind: text(kind, 'kind'), token: token as number }
}

export function readFit(body: unknown): FitNote {
  const { runtimes, memoryBytes, limits, features } = fields(fields(body)['needs'])
  const known: readonly unknown[] = Object.values(RuntimeKind)
  if (!Array.isArray(runtimes) || !runtimes.every((runtime) => known.includes(runtime))) {
    throw malformed('the needs name runtimes that nobody knows')
  }
  if (memoryBytes !== undefined && !(Number.isSafeInteger(memoryBytes) && (memoryBytes as number) >= 0)) {
    throw malformed('the needs name no count of bytes')
  }
  const limitValues = limits === undefined ? {} : fields(limits)
  if (!Object.values(limitValues).every((value) => typeof value === 'number')) throw malformed('a limit is no number')
  if (features !== undefined && !(Array.isArray(features) && features.every((name) => typeof name === 'string'))) {
    throw malformed('a feature has no name')
  }
  const needs: WorkloadNeeds = {
    runtimes: runtimes as RuntimeKind[],
    memoryBytes: memoryBytes as number | undefined,
    limits: limitValues as Record<string, number>,
    features: features ?? [],
  }
  return { ...readWork(body), needs }
}

export function readReplica(body: unknown): ReplicaNote {
  const { offerId, address, manifest, isStandby } = fields(body)
  const { port, certificate, version } = fields(address)
  if (!Number.isSafeInteger(port) || (port as number) < 1 || (port as number) > 65_535) {
    throw malformed(`${String(port)} is no port`)
  }
  if (certificate !== undefined && !(typeof certificate === 'string' && /^[\da-f]{64}$/.test(certificate))) {
    throw malformed('a certificate has no SHA-256 fingerprint')
  }
  const { id, byteLength } = fields(manifest)
  return {
    ...readWork(body),
    offerId: text(offerId, 'offerId'),
    address: { port: port as number, certificate, version: asCount(version, undefined, 1) },
    manifest: asChunkRef(id, byteLength),
    isStandby: isStandby === true,
  }
}

export function readOfferId(body: unknown): string {
  return text(fields(body)['offerId'], 'offerId')
}

function fields(value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw malformed('a message about a migration is no object')
}

/** What a peer takes as the name of work. */
export const nameOfWork: Kind = kind(
  `a text of 1 to ${mostNameLength} characters`,
  (value) => typeof value === 'string' && value.length > 0 && value.length <= mostNameLength,
)

function text(value: unknown, name: string): string {
  if (nameOfWork.misfit(value) === undefined) return value as string
  throw malformed(`a message about a migration has no ${name}`)
}

function malformed(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, message)
}

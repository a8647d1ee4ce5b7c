import assert from 'node:assert/strict'
import { EGpuError } from '../error.ts'
import type { EGpuErrorCode } from '../error.ts'

/** Fails unless `call` rejects with an `EGpuError` that carries one of `codes` and a message for people. */
export async function refuses(what: string, call: Promise<unknown>, ...codes: readonly EGpuErrorCode[]): Promise<void> {
  const wanted = codes.join(' or ')
  const error: unknown = await call.then(
    () => assert.fail(`${what} succeeded; it rejects with ${wanted}`),
    (reason: unknown) => reason,
  )
  if (error instanceof assert.AssertionError) throw error
  assert(EGpuError.is(error), `${what} rejects with an EGpuError, not with ${String(error)}`)
  assert(codes.includes(error.code), `${what} rejects with ${wanted}, not with ${error.code}: ${error.message}`)
  assert.match(error.message, /\S+\s+\S+/, `the message of ${error.code} is a sentence`)
}

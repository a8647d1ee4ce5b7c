/**
 * A host that wants to own resources and works on those it owns: it commits to a store outside of it as fast as it can. It
 * writes down, before it acts, up to when it believes to be the owner, so that the belief can be held against others' even
 * if it is killed. Arguments: node id, path of its log, path of the store's socket, etcd endpoints, lease seconds, resources.
 */
import { appendFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import type { Clock } from '@egpu/core'
import { systemClock } from '@egpu/core'
import type { Tenure } from '../../src/ownership/coordinator.ts'
import { etcdCoordinator } from '../../src/ownership/etcd-coordinator.ts'
import { Holding } from '../../src/ownership/holding.ts'

const [self = '', log = '', storePath = '', endpoints = '', leaseSeconds = '1', resources = ''] = process.argv.slice(2)

/** CLOCK_MONOTONIC as it is: the same for all processes of a machine. */
const clock: Clock = {
  now: () => Number(process.hrtime.bigint()) / 1e6,
  sleep: (ms, options) => systemClock.sleep(ms, options),
}

const note = (line: Record<string, unknown>): void => appendFileSync(log, `${JSON.stringify({ self, ...line })}\n`)

let answers: ((accepted: boolean) => void)[] = []
const store = connect(storePath)
store.on('error', () => process.exit(1))
createInterface(store).on('line', (line) => answers.shift()?.(line === 'ok'))

/** Resolves to whether the store took it. */
function commit(resource: string, token: number): Promise<boolean> {
  return new Promise((resolve) => {
    answers.push(resolve)
    store.write(`${resource} ${token} ${self}\n`)
  })
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

await using coordinator = etcdCoordinator({
  hosts: endpoints.split(','),
  self,
  leaseSeconds: Number(leaseSeconds),
  clock,
})

async function contend(resource: string): Promise<void> {
  for (;;) {
    let tenure: Tenure
    try {
      tenure = await coordinator.acquire(resource, { signal: AbortSignal.timeout(3_000) })
    } catch {
      await pause(100 + Math.random() * 100)
      continue
    }
    await own(resource, new Holding(coordinator, tenure, clock))
  }
}

async function own(resource: string, holding: Holding): Promise<void> {
  const { token } = holding.tenure
  let until = 0
  let works = 0
  while (!holding.signal.aborted) {
    try {
      holding.assertHeld()
    } catch {
      break
    }
    if (holding.tenure.validUntilMs > until) {
      until = holding.tenure.validUntilMs
      note({ kind: 'claim', resource, token, fromMs: clock.now(), untilMs: until })
    }
    const accepted = await commit(resource, token)
    note({ kind: 'work', resource, token, accepted, atMs: clock.now() })
    works += 1
    // Now and then it gives it up by itself, as work that is done does.
    if (works > 40 && Math.random() < 0.02) {
      note({ kind: 'released', resource, token, atMs: clock.now() })
      await holding.release({ signal: AbortSignal.timeout(2_000) }).catch(() => undefined)
    }
    await pause(25)
  }
  note({ kind: 'lost', resource, token, atMs: clock.now() })
  void commitLate(resource, token)
}

/** The worst that can happen: it had looked, was stopped for seconds, and acts now. */
async function commitLate(resource: string, token: number): Promise<void> {
  await pause(Math.random() * 1_500)
  note({ kind: 'late', resource, token, accepted: await commit(resource, token), atMs: clock.now() })
}

process.on('message', (message: { readonly jumpMs?: number }) => {
  if (message.jumpMs !== undefined) jumpWallClock(message.jumpMs)
})

/** As somebody setting the system's clock: everything in this process that asks for the date gets another one. */
function jumpWallClock(ms: number): void {
  const Real = Date
  globalThis.Date = class extends Real {
    constructor(value: number = Real.now() + ms) {
      super(value)
    }

    static override now(): number {
      return Real.now() + ms
    }
  } as DateConstructor
}

process.send?.('ready')
await Promise.all(resources.split(',').map(contend))

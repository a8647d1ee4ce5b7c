import { AwsClient } from 'aws4fetch'
import { afterAll, beforeAll, it } from 'vitest'
import { cephMissing, startCeph } from '../helpers/ceph.ts'
import type { Ceph } from '../helpers/ceph.ts'
import { s3FaultSuite } from '../helpers/s3-fault-suite.ts'
import { s3Suite } from '../helpers/s3-suite.ts'

const missing = cephMissing()
let ceph: Ceph | undefined
let send: (url: string, init: RequestInit) => Promise<Response>
let prefixes = 0

if (missing !== undefined) {
  it("s3Store on Ceph's gateway", (context) => context.skip(missing))
} else {
  beforeAll(async () => {
    const { url, ...keys } = (ceph = await startCeph())
    const client = new AwsClient({ ...keys, service: 's3', region: 'us-east-1', retries: 0 })
    send = (address, init) => client.fetch(address, init)
    const made = await send(`${url}/checkpoints`, { method: 'PUT' })
    if (!made.ok) throw new Error(`no bucket: ${made.status} ${await made.text()}`)
  })
  afterAll(async () => ceph?.[Symbol.asyncDispose]())

  s3Suite("Ceph's gateway", () => ({ url: `${ceph?.url}/checkpoints/test-${(prefixes += 1)}`, send }))
  s3FaultSuite("Ceph's gateway", {
    upstream: () => ceph?.url ?? '',
    fresh: () => `/checkpoints/test-${(prefixes += 1)}`,
    send: (address, init) => send(address, init),
    every: 8,
  })
}

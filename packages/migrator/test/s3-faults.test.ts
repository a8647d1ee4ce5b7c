import { afterAll, beforeAll } from 'vitest'
import { fakeS3 } from './helpers/fake-s3.ts'
import { serverOf } from './helpers/faulty-proxy.ts'
import { s3FaultSuite } from './helpers/s3-fault-suite.ts'

const fake = fakeS3(100)
let server: Awaited<ReturnType<typeof serverOf>> | undefined
let prefixes = 0
beforeAll(async () => {
  server = await serverOf((path, init) => fake.send(`http://s3.test${path}`, init))
})
afterAll(() => server?.[Symbol.asyncDispose]())

s3FaultSuite('a fake', {
  upstream: () => server?.url ?? '',
  fresh: () => `/bucket/test-${(prefixes += 1)}`,
  send: (url, init) => fetch(url, init),
  every: 3,
})

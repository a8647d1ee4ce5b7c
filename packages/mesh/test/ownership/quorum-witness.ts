/**
 * Writes to etcd again and again, through whichever member takes it, and says when it was taken: what shows whether there
 * was a majority. Each write over a connection of its own, since one that was cut off stays silent for a while after it was
 * healed. Arguments: the endpoints.
 */
import { request } from 'node:http'

const endpoints = process.argv.slice(2)
const body = JSON.stringify({ key: Buffer.from('witness').toString('base64'), value: '' })
const patienceMs = 400

function write(endpoint: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const asked = request(`${endpoint}/v3/kv/put`, {
      method: 'POST',
      agent: false,
      signal: AbortSignal.timeout(patienceMs),
    })
    asked.on('response', (answer) => {
      answer.resume()
      if (answer.statusCode === 200) resolve()
      else reject(new Error(`${answer.statusCode}`))
    })
    asked.on('error', reject)
    asked.end(body)
  })
}

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6

for (;;) {
  await Promise.any(endpoints.map(write)).then(
    () => process.send?.({ atMs: nowMs() }),
    () => undefined,
  )
  await new Promise((resolve) => setTimeout(resolve, 50))
}

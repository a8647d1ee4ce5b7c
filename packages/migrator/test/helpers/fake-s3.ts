import { createHash } from 'node:crypto'
import type { SendRequest } from '@egpu/migrator/node'

/** What happens to a request: nothing of it arrives, it is carried out and the answer gets lost, or a refusal. */
export type Fault = 'unsent' | 'answer lost' | number | undefined

export interface FakeS3 {
  readonly url: string
  readonly send: SendRequest
  readonly objects: Map<string, Uint8Array>
  /** Method and key of every request that arrived. */
  readonly requests: string[]
  fault: (request: string) => Fault
}

/**
 * The part of S3's protocol that a store uses, in memory: what a real server does, plus faults at will. The same tests run
 * against a real one in test/system.
 */
export function fakeS3(pageKeys: number = 3): FakeS3 {
  const objects = new Map<string, Uint8Array>()
  const carryOut = (method: string, url: URL, init: RequestInit): Response => {
    const key = decodeURIComponent(url.pathname.replace('/bucket', '').replace(/^\//, ''))
    if (method === 'GET' && key === '') return listed(objects, url.searchParams, pageKeys)
    const found = objects.get(key)
    if (method === 'GET') return found === undefined ? new Response('', { status: 404 }) : new Response(found.slice())
    if (method === 'DELETE') {
      objects.delete(key)
      return new Response(null, { status: 204 })
    }
    if (new Headers(init.headers).get('if-none-match') === '*' && found !== undefined) {
      return new Response('<Error><Code>PreconditionFailed</Code></Error>', { status: 412 })
    }
    const bytes = new Uint8Array(init.body as Uint8Array)
    objects.set(key, bytes)
    return new Response('', { status: 200, headers: { etag: createHash('md5').update(bytes).digest('hex') } })
  }
  const fake: FakeS3 = {
    url: 'http://s3.test/bucket/egpu',
    objects,
    requests: [],
    fault: () => undefined,
    send: async (address, init) => {
      const url = new URL(address)
      const method = init.method ?? 'GET'
      const request = `${method} ${url.pathname.replace('/bucket/egpu/', '')}${url.searchParams.get('prefix') ?? ''}`
      // Requests of several writers take turns, as they do on the way.
      await new Promise<void>((resolve) => setImmediate(resolve))
      const fault = fake.fault(request)
      if (fault === 'unsent') throw new TypeError('fetch failed')
      fake.requests.push(request)
      if (typeof fault === 'number') return new Response('<Error/>', { status: fault })
      const response = carryOut(method, url, init)
      await new Promise<void>((resolve) => setImmediate(resolve))
      if (fault === 'answer lost') throw new TypeError('terminated')
      return response
    },
  }
  return fake
}

function listed(objects: ReadonlyMap<string, unknown>, query: URLSearchParams, pageKeys: number): Response {
  const prefix = query.get('prefix') ?? ''
  const delimiter = query.get('delimiter')
  const after = query.get('continuation-token') ?? ''
  const names = [...objects.keys()].filter((key) => key.startsWith(prefix)).sort()
  const cut = (key: string): string => {
    const end = delimiter === null ? -1 : key.indexOf(delimiter, prefix.length)
    return end === -1 ? key : key.slice(0, end + 1)
  }
  const all = [...new Set(names.map(cut))].filter((name) => name > after)
  const page = all.slice(0, pageKeys)
  const entries = page.map((name) => {
    const encoded = encodeURIComponent(name)
    return names.includes(name)
      ? `<Contents><Key>${encoded}</Key><Size>1</Size></Contents>`
      : `<CommonPrefixes><Prefix>${encoded}</Prefix></CommonPrefixes>`
  })
  const isTruncated = all.length > page.length
  const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : ''
  return new Response(
    `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${next}${entries.join('')}</ListBucketResult>`,
  )
}

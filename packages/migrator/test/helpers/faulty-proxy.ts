import { createServer, request } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What the proxy does with a request instead of passing it on whole. */
export type ProxyFault =
  | { readonly status: number; readonly body?: string }
  /** The connection ends before an answer. */
  | 'reset'
  /** Half of the answer's body comes and then the connection ends. */
  | 'cut'
  /** Half of the body comes as if it were all of it. */
  | 'shortened'
  /** No answer ever comes. */
  | 'hang'
  /** The answer begins, and its body never ends. */
  | 'hang within'
  /** The answer has more and more of a body. */
  | 'flood'
  /** A bit of the body is another one. */
  | 'altered'

export interface FaultyProxy extends AsyncDisposable {
  readonly url: string
  /** Asked for each request. */
  fault: (method: string, path: string) => ProxyFault | undefined
  /** Resolves when the next request hangs. */
  hanging(): Promise<void>
}

/** A server on the loopback that passes requests on to another one there, and does harm on the way when it is told to. */
export async function faultyProxy(upstream: string): Promise<FaultyProxy> {
  const { port } = new URL(upstream)
  let hangs: () => void = () => undefined
  const server = createServer((incoming, outgoing) => {
    const fault = proxy.fault(incoming.method ?? 'GET', incoming.url ?? '/')
    void gathered(incoming).then(async (sent) => {
      if (fault === 'hang') return hangs()
      if (fault === 'reset') return outgoing.destroy()
      if (typeof fault === 'object') return outgoing.writeHead(fault.status).end(fault.body ?? '')
      const answer = await passedOn(incoming, sent, Number(port))
      if (fault === 'hang within') hangs()
      harm(outgoing, answer, fault)
    })
  })
  const proxy: FaultyProxy = {
    url: await listening(server),
    fault: () => undefined,
    hanging: () => new Promise((resolve) => (hangs = resolve)),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return proxy
}

/** An HTTP server for what answers requests as `fetch` would. */
export async function serverOf(
  answer: (path: string, init: RequestInit) => Promise<Response>,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((incoming, outgoing) => {
    void gathered(incoming).then(async (sent) => {
      const headers = Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)])
      const body = incoming.method === 'PUT' ? { body: new Uint8Array(sent) } : {}
      const response = await answer(incoming.url ?? '/', { method: incoming.method ?? 'GET', headers, ...body })
      outgoing.writeHead(response.status, Object.fromEntries(response.headers))
      outgoing.end(Buffer.from(await response.arrayBuffer()))
    })
  })
  const url = await listening(server)
  return {
    url,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

function harm(outgoing: ServerResponse, { status, headers, body }: Answer, fault: ProxyFault | undefined): void {
  const { 'transfer-encoding': _, 'content-length': __, connection: ___, ...rest } = headers
  const half = body.subarray(0, body.byteLength >> 1)
  switch (fault) {
    case 'cut':
      outgoing.writeHead(status, { ...rest, 'content-length': body.byteLength + 1 })
      outgoing.write(half, () => outgoing.destroy())
      return
    case 'shortened':
      outgoing.writeHead(status, { ...rest, 'content-length': half.byteLength }).end(half)
      return
    case 'hang within':
      outgoing.writeHead(status, { ...rest, 'content-length': body.byteLength + 1 })
      outgoing.write(half)
      return
    case 'flood': {
      outgoing.writeHead(status, rest)
      const more = Buffer.alloc(2 ** 20, ' ')
      const pour = (): void => {
        while (!outgoing.destroyed && outgoing.write(more));
        outgoing.once('drain', pour)
      }
      pour()
      return
    }
    case 'altered':
      if (body.byteLength > 0) body.writeUInt8(body.readUInt8(half.byteLength) ^ 1, half.byteLength)
  }
  // The answer to some requests has a length and no body.
  const length = status === 204 || status === 304 ? {} : { 'content-length': body.byteLength }
  outgoing.writeHead(status, { ...rest, ...length }).end(body)
}

/** The same request to the other server, the host's name included: it is signed. */
function passedOn({ method, url, headers }: IncomingMessage, sent: Buffer, port: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const onward = request({ host: '127.0.0.1', port, method, path: url, headers, agent: false }, (answer) => {
      void gathered(answer).then((body) => resolve({ status: answer.statusCode ?? 502, headers: answer.headers, body }))
    })
    onward.on('error', reject)
    onward.end(sent)
  })
}

async function gathered(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of message) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

import { createServer, type AddressInfo, type Socket } from 'node:net'
import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { etcdCoordinator } from '../../src/ownership/etcd-coordinator.ts'
import { EtcdHistory } from '../../src/ownership/etcd-history.ts'

const malformed = { code: EGpuErrorCode.MalformedData }

describe('what an etcd says of itself', () => {
  const header = (revision: number, cluster = '7'): { cluster_id: string; revision: string } => ({
    cluster_id: cluster,
    revision: String(revision),
  })

  it('goes on from what it said before', () => {
    const history = new EtcdHistory('here')
    history.hear(header(5), history.latest)
    history.hear(header(5), history.latest)
    // Asked before the answer above came, and answered by a member that was not as far.
    history.hear(header(4), undefined)
    history.hear(header(9), history.latest)
    expect(history.latest).toEqual({ clusterId: '7', revision: 9 })
  })

  it('cannot be an earlier revision, nor another cluster', () => {
    const history = new EtcdHistory('here')
    history.hear(header(5), history.latest)
    const wrong = (text: RegExp): unknown =>
      expect.objectContaining({ ...malformed, message: expect.stringMatching(text) })
    expect(() => history.hear(header(4), history.latest)).toThrow(wrong(/here went back from revision 5 to 4/))
    expect(() => history.hear(header(6, '8'), history.latest)).toThrow(wrong(/here is another cluster/))
    expect(history.latest).toEqual({ clusterId: '7', revision: 5 })
  })
})

describe('at the address of an etcd', () => {
  const answers: readonly (readonly [string, (socket: Socket) => void])[] = [
    ['something that says nothing', () => {}],
    ['something that hangs up', (socket) => socket.destroy()],
    ['a web server', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')],
    [
      'something that sends nonsense without end',
      (socket) => socket.on('drain', () => socket.write(nonsense)).write(nonsense),
    ],
  ]
  const nonsense = Buffer.alloc(100_000, 0xa5)

  it.each(answers)('%s is told from one, in time', async (_what, answer) => {
    const sockets = new Set<Socket>()
    const server = createServer((socket) => {
      sockets.add(socket.on('error', () => {}))
      answer(socket)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    try {
      await using coordinator = etcdCoordinator({ hosts: [`http://127.0.0.1:${port}`], self: 'a', leaseSeconds: 1 })
      await expect(coordinator.acquire('job')).rejects.toMatchObject({
        code: EGpuErrorCode.PeerLost,
        message: expect.stringMatching(/etcd at .* did not answer: ./) as unknown,
      })
    } finally {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})

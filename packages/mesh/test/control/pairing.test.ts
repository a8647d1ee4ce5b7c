import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { dialSecure } from '../../src/control/control-plane.ts'
import { MessageStream } from '../../src/control/message-stream.ts'
import { newPairingCode, openPairing, pairWith, type PairingWindow } from '../../src/control/pairing.ts'
import { Purpose } from '../../src/control/secure-socket.ts'
import { spake2Share } from '../../src/control/spake2.ts'
import { temporaryIdentity } from '../../src/identity/identity.ts'
import { pairWithNeighbour } from '../../src/pair-with-neighbour.ts'
import { side, type Side } from '../helpers/planes.ts'

const rooms: Side[] = []
afterEach(async () => {
  for (const room of rooms.splice(0)) await room[Symbol.asyncDispose]()
})

async function waiting(code: string = newPairingCode()): Promise<{ window: PairingWindow; room: Side }> {
  const identity = temporaryIdentity()
  const window = openPairing({ identity, name: 'shows' }, code)
  const room = await side(() => false, { identity, onPairing: (socket) => window.accept(socket) })
  rooms.push(room)
  return { window, room }
}

const typing = { identity: temporaryIdentity(), name: 'types' }
const at = ({ port }: Side, code: string): { host: string; port: number; code: string } => ({
  host: '127.0.0.1',
  port,
  code,
})

describe('pairing by code', () => {
  it('tells each side the key and the name of the other', async () => {
    const { window, room } = await waiting()
    expect(await pairWith(typing, at(room, window.code))).toMatchObject({ id: room.identity.nodeId, name: 'shows' })
    expect(await window.paired).toMatchObject({ id: typing.identity.nodeId, name: 'types' })
  })

  it('takes the code without its dash', async () => {
    const { window, room } = await waiting()
    await pairWith(typing, at(room, ` ${window.code.replace('-', '')} `))
    await window.paired
  })

  it('is void after three wrong codes, also for the right one', async () => {
    const { window, room } = await waiting('1111-1111')
    for (let attempt = 0; attempt < 3; attempt += 1)
      await expect(pairWith(typing, at(room, '2222-2222'))).rejects.toThrow(/the code is wrong/)
    await expect(pairWith(typing, at(room, '1111-1111'))).rejects.toThrow(/nobody waits for a pairing/)
    await expect(window.paired).rejects.toThrow(/three wrong codes/)
  })

  it('counts a wrong code once where two cables lead to the host that shows it', async () => {
    const { window, room } = await waiting('1111-1111')
    const { port, identity } = room
    const cable = { id: identity.nodeId, address: '127.0.0.1', interfaceName: 'lo', port, pairing: true }
    const neighbours = [cable, cable, { ...cable, port: 1 }]
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await expect(pairWithNeighbour(typing, neighbours, '2222-2222', {})).rejects.toThrow(/the code is wrong$/)
    }
    const paired = pairWithNeighbour(typing, [{ ...cable, port: 1 }, cable], '1111-1111', {})
    expect(await paired).toMatchObject({ id: identity.nodeId })
    await window.paired
  })

  it.each(['123', 'abcd-efgh', '', '１２３４-５６７８', '١٢٣٤٥٦٧٨', '1234-56789', undefined])(
    'is refused before anybody is asked: %j',
    async (code) => {
      await expect(pairWithNeighbour(typing, [], code as string, {})).rejects.toThrow(TypeError)
    },
  )

  it('counts guesses that are made at once one by one', async () => {
    const { window, room } = await waiting('1111-1111')
    const guesses = Array.from({ length: 5 }, () => pairWith(typing, at(room, '2222-2222')))
    expect((await Promise.allSettled(guesses)).every(({ status }) => status === 'rejected')).toBe(true)
    await expect(window.paired).rejects.toMatchObject({ code: 'EGPU_PEER_NOT_TRUSTED' })
  })

  it('is good for one host', async () => {
    const { window, room } = await waiting()
    await pairWith(typing, at(room, window.code))
    const second = { identity: temporaryIdentity(), name: 'second' }
    await expect(pairWith(second, at(room, window.code))).rejects.toThrow(/nobody waits for a pairing/)
  })

  it('broken off at any step costs no attempt and leaves the code good', async () => {
    const { window, room } = await waiting()
    const share = `04${'0'.repeat(128)}`
    const steps = [
      [],
      ['nonsense'],
      [{ t: 'pair', version: 1, share, name: 'x' }],
      [{ t: 'pair', version: 9, share, name: 'x' }],
    ]
    for (const messages of [...steps, ...steps]) {
      const { identity } = typing
      const socket = await dialSecure(identity, '127.0.0.1', room.port, Purpose.Pair, AbortSignal.timeout(20_000))
      const stream = new MessageStream(socket)
      for (const message of messages) stream.send(message)
      socket.end()
      await new Promise((resolve) => socket.resume().once('close', resolve))
    }
    // One that answers what it was told, and then goes.
    const socket = await dialSecure(typing.identity, '127.0.0.1', room.port, Purpose.Pair, AbortSignal.timeout(20_000))
    const stream = new MessageStream(socket)
    const start = { role: 'a', w: 7n, secret: 9n } as const
    stream.send({ t: 'pair', version: 1, share: spake2Share(start).toString('hex'), name: 'x' })
    await expect(stream.next(AbortSignal.timeout(20_000))).resolves.toMatchObject({ t: 'pair' })
    socket.destroy()
    await pairWith(typing, at(room, window.code))
    await window.paired
  })

  it('finds a host that stands between the two, although it passes every message on', async () => {
    const code = '1234-5678'
    const { window, room } = await waiting(code)
    // Terminates TLS on both sides with a key of its own and relays the bytes inside.
    const between = temporaryIdentity()
    const relay = await side(() => false, {
      identity: between,
      onPairing: async (socket) => {
        const onward = await dialSecure(between, '127.0.0.1', room.port, 'egpu-mesh-pair', AbortSignal.timeout(5_000))
        socket.pipe(onward).pipe(socket)
      },
    })
    rooms.push(relay)
    await expect(pairWith(typing, at(relay, code))).rejects.toThrow(/the code is wrong/)
    await window.close()
    await expect(window.paired).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
  })

  it('refuses where nobody waits', async () => {
    const room = await side(() => true)
    rooms.push(room)
    await expect(pairWith(typing, at(room, '1234-5678'))).rejects.toMatchObject({ code: 'EGPU_PEER_LOST' })
  })

  it('rejects a code that cannot be one before it dials', async () => {
    await expect(pairWith(typing, { host: '127.0.0.1', port: 1, code: '1234' })).rejects.toThrow(TypeError)
  })

  it('is not held up by a connection that says nothing', async () => {
    const { window, room } = await waiting()
    const silent = connect(room.port, '127.0.0.1')
    silent.on('error', () => {})
    await pairWith(typing, at(room, window.code))
    silent.destroy()
  })
})

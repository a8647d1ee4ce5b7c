import { randomBytes } from 'node:crypto'
import { connect as connectTcp, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { EGpuError } from '@egpu/core'
import { decode } from 'dns-packet'
import { describe, expect, it } from 'vitest'
import { dialSecure } from '../../src/control/control-plane.ts'
import { encodeFrame, FrameReader, frameLimit } from '../../src/control/frame.ts'
import { helloMessage, protocolVersions, readHello, type Hello } from '../../src/control/hello.ts'
import { MessageStream } from '../../src/control/message-stream.ts'
import { exportedKey, Purpose } from '../../src/control/secure-socket.ts'
import { whoMakesRoom, type Stranger } from '../../src/control/strangers.ts'
import { entriesOf, isPlausible, rateGate } from '../../src/discovery/guarded-socket.ts'
import { fromRecords } from '../../src/discovery/records.ts'
import { temporaryIdentity } from '../../src/identity/identity.ts'
import { readOffer } from '../../src/offers.ts'
import { pair, side, until, type Side } from '../helpers/planes.ts'
import { randomFrom } from '../helpers/random.ts'

const hello: Hello = {
  versions: protocolVersions,
  instance: '0123456789abcdef',
  hostTag: 'fedcba9876543210',
  name: 'mallory',
  visitor: false,
  heartbeatPort: undefined,
  end: { uuid: undefined, port: undefined, interfaceName: undefined, mtu: undefined },
}
const seed = Number(process.env['EGPU_TEST_SEED'] ?? 8)

/** JSON with wrong types, missing fields, deep nesting, and names that are properties of every object. */
function oddValue(random: (below: number) => number, depth = 0): unknown {
  const leaves = [null, true, -1, 1e308, '', 'hello', '__proto__', '\u0000', 'x'.repeat(300), 2 ** 53, 0.5]
  const kind = random(depth > 3 ? 1 : 3)
  if (kind < 1) return leaves[Math.floor(random(leaves.length))]
  if (kind < 2) return Array.from({ length: random(4) }, () => oddValue(random, depth + 1))
  const keys = ['t', 'id', 'type', 'body', 'versions', 'end', 'name', 'constructor', '__proto__', 'binding', 'message']
  return Object.fromEntries(
    Array.from({ length: random(6) }, () => [
      keys[Math.floor(random(keys.length))] as string,
      oddValue(random, depth + 1),
    ]),
  )
}

describe('input that was made to break something', () => {
  it('of 100,000 frames none does more than be refused', () => {
    const random = randomFrom(seed)
    const originals = Array.from({ length: 1_000 }, () =>
      encodeFrame(random(4) < 1 ? helloMessage(hello, 'b') : oddValue(random), frameLimit.hello),
    )
    let [whole, refused] = [0, 0]
    for (let round = 0; round < 100_000; round += 1) {
      const reader = new FrameReader(frameLimit.hello)
      const frame = Buffer.from(originals[round % originals.length] as Buffer)
      for (let flips = random(4); flips >= 1; flips -= 1) frame[Math.floor(random(frame.length))] = random(256)
      const cut = Math.floor(random(frame.length))
      try {
        for (const part of [frame.subarray(0, cut), frame.subarray(cut)])
          for (const message of reader.read(part)) {
            whole += 1
            readHello(message, 'b')
          }
      } catch (error) {
        if (!EGpuError.is(error)) throw error
        refused += 1
      }
    }
    // Both really happened.
    expect(whole).toBeGreaterThan(10_000)
    expect(refused).toBeGreaterThan(10_000)
  }, 120_000)

  it('of 20,000 offers and DNS packets none does either, nor takes long', () => {
    const random = randomFrom(seed)
    for (let round = 0; round < 20_000; round += 1) {
      try {
        readOffer(oddValue(random))
      } catch (error) {
        if (!EGpuError.is(error)) throw error
      }
      const packet = randomBytes(12 + Math.floor(random(80)))
      for (const offset of [4, 6, 8, 10]) if (random(8) >= 1) packet.writeUInt16BE(random(3), offset)
      let records
      try {
        if (!isPlausible(packet)) continue
        // What multicast-dns does, which drops what does not decode.
        records = decode(packet).answers ?? []
      } catch {
        continue
      }
      fromRecords(records)
    }
  }, 120_000)

  it('as nesting without end, numbers that are none, or names of what every object has is answered or refused, and that is all', async () => {
    await using sides = await pair()
    const { a, b } = sides
    b.plane.handle('echo', (body) => body)
    b.plane.handle('offer', (body) => readOffer(body).length)
    const { socket, answered } = await befriend(a, b)
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
    const bodies = [
      deep,
      `{"a":${deep}}`,
      '[1e999]',
      '{"__proto__":{"id":1},"constructor":1}',
      '[{"id":"x","limits":{"a":1e999}}]',
    ]
    const types = ['echo', 'offer', '__proto__', 'constructor']
    let id = 0
    for (const type of types)
      for (const body of bodies) {
        const frame = Buffer.from(`    {"t":"request","id":${(id += 1)},"type":"${type}","body":${body}}`)
        frame.writeUInt32BE(frame.length - 4)
        socket.write(frame)
      }
    for (let each = 1; each <= id; each += 1) await answered(each)
    const connection = await a.plane.dial({ host: '127.0.0.1', port: b.port })
    expect(await connection.request('echo', 'alive')).toBe('alive')
  })

  it('as any type of message over a real connection ends that connection at most', async () => {
    await using sides = await pair()
    const { a, b } = sides
    const random = randomFrom(seed)
    for (let connections = 0; connections < 10; connections += 1) {
      const { stream, socket } = await befriend(a, b)
      for (let message = 0; message < 100; message += 1) stream.send(oddValue(random))
      socket.end()
      if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
    }
    b.plane.handle('echo', (body) => body)
    const connection = await a.plane.dial({ host: '127.0.0.1', port: b.port })
    expect(await connection.request('echo', 'alive')).toBe('alive')
  })
})

interface Friend {
  readonly stream: MessageStream
  readonly socket: TLSSocket
  /** What came in answer to the hello. */
  readonly welcome: unknown
  /** Resolves once the request of that number was answered. */
  readonly answered: (id: number) => Promise<void>
}

/** A paired peer that speaks the protocol by hand from the welcome on. */
async function befriend(from: Side, to: Side, saying: Partial<Hello> = {}): Promise<Friend> {
  const socket = await dialSecure(from.identity, '127.0.0.1', to.port, Purpose.Mesh, AbortSignal.timeout(20_000))
  const stream = new MessageStream(socket)
  const instance = randomBytes(8).toString('hex')
  stream.send(helloMessage({ ...hello, instance, ...saying }, exportedKey(socket, 'hello').toString('hex')))
  await stream.next(AbortSignal.timeout(20_000))
  const welcome = await stream.next(AbortSignal.timeout(20_000))
  const ids = new Set<unknown>()
  stream.listen(
    (message) => ids.add((message as { id?: unknown }).id),
    () => {},
  )
  return { stream, socket, welcome, answered: (id) => until(() => ids.has(id)) }
}

describe('a DNS packet', () => {
  it('that counts more entries than it has room for never gets to the decoder', () => {
    const packet = Buffer.alloc(12)
    packet.writeUInt16BE(65_535, 6)
    expect(isPlausible(packet)).toBe(false)
    packet.writeUInt16BE(0, 6)
    expect(isPlausible(packet)).toBe(true)
    expect(isPlausible(Buffer.alloc(11))).toBe(false)
  })

  it('that is longer than one may be does not either', () => {
    expect(isPlausible(Buffer.alloc(9_000))).toBe(true)
    expect(isPlausible(Buffer.alloc(9_001))).toBe(false)
  })
})

describe('a flood of packets', () => {
  it('that the decoder is long at counts as many: of entries no more are decoded in a second than it has time for', () => {
    // As many questions as fit, each with a name of 126 labels that the first one spells out.
    const packet = Buffer.alloc(1_500)
    for (let at = 12; at < 264; at += 2) packet.write('\u0001a', at, 'latin1')
    for (let at = 269; at + 6 <= packet.length; at += 6) packet.writeUInt16BE(0xc00c, at)
    packet.writeUInt16BE(1 + Math.floor((packet.length - 269) / 6), 4)
    expect(isPlausible(packet)).toBe(true)
    expect(decode(packet).questions?.at(-1)?.name).toHaveLength(251)
    let nowMs = 0
    const flood = rateGate(() => nowMs)
    let entries = 0
    for (; nowMs < 10_000; nowMs += 0.1) if (flood(entriesOf(packet))) entries += entriesOf(packet)
    expect(entries).toBeGreaterThan(0)
    expect(entries).toBeLessThanOrEqual(8 * (100 + 10 * 200))
  })

  it('is heard at a rate that costs little, and a quiet cable is heard whole', () => {
    let nowMs = 0
    const flood = rateGate(() => nowMs)
    let heard = 0
    for (; nowMs < 10_000; nowMs += 0.1) if (flood()) heard += 1
    expect(heard).toBeGreaterThan(2_000)
    expect(heard).toBeLessThanOrEqual(100 + 10 * 200)
    const quiet = rateGate(() => nowMs)
    for (let packet = 0; packet < 1_000; packet += 1) {
      nowMs += 20
      expect(quiet()).toBe(true)
    }
  })
})

describe('a hello', () => {
  it('that was recorded on another connection is refused as a replay', async () => {
    await using sides = await pair()
    const { a, b } = sides
    const socket = await dialSecure(a.identity, '127.0.0.1', b.port, Purpose.Mesh, AbortSignal.timeout(5_000))
    const stream = new MessageStream(socket)
    stream.send(helloMessage(hello, 'ab'.repeat(32)))
    await stream.next(AbortSignal.timeout(5_000))
    expect(await stream.next(AbortSignal.timeout(5_000))).toMatchObject({
      t: 'bye',
      message: expect.stringMatching(/replays/) as unknown,
    })
    await until(() => b.refusals.length === 1)
    expect(b.plane.connections()).toEqual([])
  })

  it.each([
    [2, 3],
    [0, 0],
    [2 ** 53 - 1, 2 ** 53 - 1],
  ])('of another protocol version, %d to %d, is refused with both versions', async (lowest, highest) => {
    await using sides = await pair()
    const { a, b } = sides
    const socket = await dialSecure(a.identity, '127.0.0.1', b.port, Purpose.Mesh, AbortSignal.timeout(5_000))
    const stream = new MessageStream(socket)
    const binding = exportedKey(socket, 'hello').toString('hex')
    stream.send(helloMessage({ ...hello, versions: { lowest, highest } }, binding))
    await stream.next(AbortSignal.timeout(5_000))
    const { message } = (await stream.next(AbortSignal.timeout(5_000))) as { message: string }
    expect(message).toContain(`speaks mesh protocol ${lowest} to ${highest}, this one 1 to 1; upgrade`)
  })
})

describe('a frame', () => {
  const read = (bytes: Buffer): unknown[] => [...new FrameReader(100).read(bytes)]
  const header = (length: number): Buffer => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(length)
    return bytes
  }

  it.each([
    ['longer than allowed, before its body arrives', header(101)],
    ['of 4 GB', header(2 ** 32 - 1)],
    ['without a body', header(0)],
    ['that is not JSON', Buffer.concat([header(2), Buffer.from('{"')])],
    ['that is not UTF-8', Buffer.concat([header(3), Buffer.from([0x22, 0xff, 0x22])])],
  ])('%s is refused', (_what, bytes) => {
    expect(() => read(bytes)).toThrow(expect.objectContaining({ code: 'EGPU_MALFORMED_DATA' }))
  })

  it('comes out whole however it was cut', () => {
    const reader = new FrameReader(1_000)
    const bytes = Buffer.concat([1, 'two', { three: 3 }].map((message) => encodeFrame(message, 1_000)))
    const got = [...bytes].flatMap((byte) => [...reader.read(Buffer.from([byte]))])
    expect(got).toEqual([1, 'two', { three: 3 }])
    expect(reader.isWithin).toBe(false)
  })

  it('sent byte by byte has nothing kept of the chunks it came in', () => {
    const reader = new FrameReader(1_000)
    const bytes = encodeFrame({ text: 'x'.repeat(900) }, 1_000)
    const chunk = Buffer.alloc(1)
    // A kept chunk would have what came last, as all of them are this one.
    const got = [...bytes].flatMap((byte) => [
      ...reader.read(Buffer.from(chunk.fill(byte).buffer, chunk.byteOffset, 1)),
    ])
    expect(got).toEqual([{ text: 'x'.repeat(900) }])
    expect(reader.messageBytes).toBe(bytes.length - 4)
  })
})

describe('those who only hold a line', () => {
  const hold = (port: number, address: string, localAddress?: string): Socket => {
    const socket = connectTcp({ port, host: address, ...(localAddress === undefined ? {} : { localAddress }) })
    socket.on('error', () => {})
    return socket
  }

  it('are cut off, and keep nobody from getting in, from their own address neither', async () => {
    await using sides = await pair()
    const { a, b } = sides
    // One address may have 16 connections that have not said who they are; the older ones are closed at once.
    const idle = Array.from({ length: 500 }, () => hold(b.port, '127.0.0.1'))
    const closed = (): Socket[] => idle.filter(({ destroyed }) => destroyed)
    await until(() => closed().length >= 484)
    const connection = await a.plane.dial({ host: '127.0.0.1', port: b.port })
    expect(connection.peerId).toBe(b.identity.nodeId)
    await until(() => closed().length === idle.length)
  })

  it('from a great many addresses keep nobody from getting in either', async () => {
    await using sides = await pair()
    const { a, b } = sides
    const idle = Array.from({ length: 200 }, (_, index) => hold(b.port, '127.0.0.1', `127.0.1.${1 + (index % 20)}`))
    await until(() => idle.filter(({ destroyed }) => destroyed).length >= 200 - 128)
    const connection = await a.plane.dial({ host: '127.0.0.1', port: b.port })
    expect(connection.peerId).toBe(b.identity.nodeId)
    for (const socket of idle) socket.destroy()
  })

  it('on one cable take no room from those on another', () => {
    const patient = { from: 'fe80::1%thunderbolt1', to: 'fe80::2%thunderbolt1' }
    const strangers: Stranger[] = [patient]
    for (let each = 0; each < 10_000; each += 1) {
      strangers.push({ from: `fe80::${each}%thunderbolt0`, to: 'fe80::3%thunderbolt0' })
      const tooMany = whoMakesRoom(strangers)
      if (tooMany !== undefined) strangers.splice(strangers.indexOf(tooMany), 1)
    }
    expect(strangers).toHaveLength(128)
    expect(strangers[0]).toBe(patient)
    expect(strangers.at(-1)?.from).toBe('fe80::9999%thunderbolt0')
  })

  it('without a handshake take no room from those who got through one', () => {
    const pairing = { from: '10.0.0.1', to: '10.0.0.2', isSecured: true }
    const strangers: Stranger[] = [pairing]
    for (let each = 0; each < 10_000; each += 1) {
      strangers.push({ ...pairing, isSecured: false })
      const tooMany = whoMakesRoom(strangers)
      if (tooMany !== undefined) strangers.splice(strangers.indexOf(tooMany), 1)
    }
    expect(strangers).toHaveLength(16)
    expect(strangers[0]).toBe(pairing)
  })

  it('after the handshake are cut off too', async () => {
    await using known = await side(() => true)
    const socket = await dialSecure(
      temporaryIdentity(),
      '127.0.0.1',
      known.port,
      Purpose.Mesh,
      AbortSignal.timeout(5_000),
    )
    socket.resume()
    await new Promise((resolve) => socket.once('close', resolve))
    expect(known.plane.connections()).toEqual([])
  })
})

describe('a paired peer that wants more than its share', () => {
  it('has 32 connections at most, with its visitors, and is told so', async () => {
    await using sides = await pair()
    const { a, b } = sides
    const visit = { visitor: true }
    for (let each = 0; each < 32; each += 1) await befriend(a, b, visit)
    await expect(befriend(a, b, visit)).resolves.toMatchObject({ welcome: { t: 'bye', reason: 'EGPU_PEER_REFUSED' } })
    await until(() => b.refusals.some(({ error }) => /more than 32 connections/.test(error.message)))
  })

  it('has what it asks kept for it up to a limit over all its connections, and is served again later', async () => {
    await using sides = await pair()
    const { a, b } = sides
    let serve: (() => void) | undefined
    const served = new Promise<string>((resolve) => (serve = () => resolve('served')))
    b.plane.handle('wait', () => served)
    const others = [await befriend(a, b, { visitor: true }), await befriend(a, b, { visitor: true })]
    const connection = await a.plane.dial({ host: '127.0.0.1', port: b.port })
    const large = 'x'.repeat(1_000_000)
    for (const { stream } of others)
      for (let id = 1; id <= 4; id += 1) stream.send({ t: 'request', id, type: 'wait', body: large })
    await until(() => others.every(({ socket }) => socket.writableLength === 0))
    // What was sent has arrived once something sent after it is answered.
    for (const { stream, answered } of others) {
      stream.send({ t: 'request', id: 5, type: 'mesh.alive' })
      await answered(5)
    }
    await expect(connection.request('wait', large)).rejects.toMatchObject({
      code: 'EGPU_PEER_REFUSED',
      message: expect.stringMatching(/too large together/) as unknown,
    })
    expect(await connection.request('mesh.alive', undefined)).toBe(true)
    serve?.()
    await Promise.all(others.map(({ answered }) => answered(4)))
    expect(await connection.request('wait', large)).toBe('served')
  })
})

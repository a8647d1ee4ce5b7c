// Watches the network interfaces and exchanges heartbeats in a thread of its own, so that work that keeps the main thread busy
// neither delays the news of a pulled cable nor looks like a dead host to the peers. link-watch.ts starts it.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'

/** @typedef {{
 *   id: number, key: Buffer, tag: string, address: string, port: number, side: number, sent: number, heard: number,
 *   heardAt: number, arrivedAt: number, hasBeenTwoWay: boolean, openedAt: number, state: string,
 * }} Session */

const { lookEveryMs, beatEveryMs, silentAfterMs, unheardAfterMs } = workerData
if (parentPort === null) throw new Error('this file is a worker')
const port = parentPort

const tagBytes = 8
const macBytes = 16
/** tag, side, number, last number heard, milliseconds since then */
const bodyBytes = tagBytes + 1 + 4 + 4 + 4
const never = 0xffffffff

/** @type {Map<string, Session>} */
const sessions = new Map()
const socket = createSocket({ type: 'udp6', reuseAddr: false })

/** @param {Buffer} key @param {Buffer} body */
const mac = (key, body) => createHmac('sha256', key).update(body).digest().subarray(0, macBytes)

/** @param {Session} session */
function beat(session) {
  const body = Buffer.alloc(bodyBytes)
  body.write(session.tag, 'hex')
  body.writeUInt8(session.side, tagBytes)
  session.sent += 1
  body.writeUInt32BE(session.sent, tagBytes + 1)
  body.writeUInt32BE(session.heard, tagBytes + 5)
  const age = session.heard === 0 ? never : Math.min(never - 1, Math.round(performance.now() - session.heardAt))
  body.writeUInt32BE(age, tagBytes + 9)
  // Sending into a link that is gone fails at once, which the look at the interfaces reports better.
  socket.send(Buffer.concat([body, mac(session.key, body)]), session.port, session.address, () => {})
}

socket.on('message', (message) => {
  if (message.length !== bodyBytes + macBytes) return
  const session = sessions.get(message.toString('hex', 0, tagBytes))
  const body = message.subarray(0, bodyBytes)
  if (session === undefined || !timingSafeEqual(mac(session.key, body), message.subarray(bodyBytes))) return
  const number = message.readUInt32BE(tagBytes + 1)
  // Its own beat thrown back, or an old one played again.
  if (message.readUInt8(tagBytes) === session.side || number <= session.heard) return
  const now = performance.now()
  session.heard = number
  session.heardAt = now
  const age = message.readUInt32BE(tagBytes + 9)
  if (age !== never) {
    session.arrivedAt = now - age
    session.hasBeenTwoWay = true
  }
})
socket.on('error', (error) => port.postMessage({ type: 'failed', message: error.message }))

/** @param {Session} session @param {number} now */
function stateOf(session, now) {
  if (!session.hasBeenTwoWay) return now - session.openedAt > unheardAfterMs ? 'unheard' : 'waiting'
  if (now - session.heardAt > silentAfterMs) return 'silent'
  // Only who was heard just now can say that nothing arrives there.
  if (now - session.heardAt < 4 * beatEveryMs && now - session.arrivedAt > silentAfterMs) return 'one-way'
  return 'alive'
}

let beatAt = performance.now()
setInterval(() => {
  const now = performance.now()
  const late = now - beatAt - beatEveryMs
  beatAt = now
  for (const session of sessions.values()) beat(session)
  // After a pause of this thread what has arrived meanwhile is still to be read, so nobody is judged now.
  if (late > beatEveryMs) return
  for (const session of sessions.values()) {
    const state = stateOf(session, now)
    if (state === session.state) continue
    session.state = state
    port.postMessage({ type: 'state', id: session.id, state })
  }
}, beatEveryMs)

/** @type {readonly string[]} */
let followed = []

/** @param {string} name */
function lacksCarrier(name) {
  try {
    return readFileSync(`/sys/class/net/${name}/carrier`, 'latin1').startsWith('0')
  } catch {
    // No Linux, or the interface is gone or down, which the list of interfaces tells.
    return false
  }
}

const look = () => {
  const addresses = Object.entries(networkInterfaces()).map(([name, entries = []]) => [
    name,
    entries.map((entry) => [entry.address, 'scopeid' in entry ? entry.scopeid : 0]),
  ])
  const withoutCarrier = followed.filter(lacksCarrier)
  return { withoutCarrier, text: JSON.stringify([addresses, withoutCarrier]) }
}
let seen = look().text
setInterval(() => {
  const { withoutCarrier, text } = look()
  if (text === seen) return
  seen = text
  port.postMessage({ type: 'network', withoutCarrier })
}, lookEveryMs)

port.on('message', (message) => {
  if (message.type === 'add') {
    const key = Buffer.from(message.key)
    const tag = createHmac('sha256', key).update('tag').digest().subarray(0, tagBytes).toString('hex')
    const { id, address, port: peerPort, side } = message
    const now = performance.now()
    sessions.set(tag, {
      id,
      key,
      tag,
      address,
      port: peerPort,
      side,
      sent: 0,
      heard: 0,
      heardAt: now,
      arrivedAt: now,
      hasBeenTwoWay: false,
      openedAt: now,
      state: 'waiting',
    })
  } else if (message.type === 'follow') {
    followed = message.names
  } else if (message.type === 'remove') {
    for (const [tag, { id }] of sessions) if (id === message.id) sessions.delete(tag)
  }
})

socket.bind(0, '::', () => port.postMessage({ type: 'ready', port: socket.address().port }))

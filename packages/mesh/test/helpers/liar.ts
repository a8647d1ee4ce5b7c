/**
 * Lies on a cable: says over multicast DNS, many times a second, that a peer is here, and a great many hosts that are not
 * anywhere. Arguments: interface, port that the lies lead to, id of the peer, number of other hosts.
 */
import { randomBytes } from 'node:crypto'
import createMdns from 'multicast-dns'
import { toRecords } from '../../src/discovery/records.ts'

const [interfaceName = '', port = '', victim = '', strangers = '0'] = process.argv.slice(2)
const mdns = createMdns({
  type: 'udp6',
  ip: `ff02::fb%${interfaceName}`,
  interface: `::%${interfaceName}`,
  bind: '::',
})
const hostTag = randomBytes(8).toString('hex')
const instances = [victim, ...Array.from({ length: Number(strangers) }, () => randomBytes(32).toString('hex'))].map(
  (nodeId) => ({ nodeId, instance: randomBytes(8).toString('hex') }),
)
mdns.on('ready', () => {
  setInterval(() => {
    for (const { nodeId, instance } of instances) {
      const [answer, ...additionals] = toRecords({ nodeId, instance, hostTag, port: Number(port), pairing: true })
      mdns.respond({ answers: answer === undefined ? [] : [answer], additionals })
    }
  }, 200)
})

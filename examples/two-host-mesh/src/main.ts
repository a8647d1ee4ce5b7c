import { createInterface } from 'node:readline'
import { openHost } from './host.ts'
import { obey } from './obey.ts'
import { twoHosts } from './two-hosts.ts'

const [role, etcd] = process.argv.slice(2)
if (role === 'host') {
  await using host = await openHost({ lan: true }, 40_000_000, etcd?.split(','))
  if (host.mesh.activePeerCount === 0) await host.mesh.next('peer-connected')
  console.log('The peer is here. What now: begin, standby, pull, move or bury?')
  await obey(host, createInterface({ input: process.stdin }), console.log)
} else console.log(`${await twoHosts(400_000, console.log)} primes up to 400000`)

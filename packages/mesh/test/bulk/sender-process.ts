/**
 * A sender in a process of its own: offers the file it is given, says where on its first line, and gives out a token for
 * each line it reads.
 */
import { createInterface } from 'node:readline'
import { offerFile } from './helpers.ts'

const [path = '', host = '127.0.0.1', encrypted = 'true', chunkBytes = String(2 ** 22)] = process.argv.slice(2)
const { server, offer, ref } = await offerFile(path, {
  host,
  encrypted: encrypted === 'true',
  chunkBytes: Number(chunkBytes),
})
console.log(JSON.stringify({ address: server.address, ref }))
const lines = createInterface(process.stdin)
lines.on('line', (line) => {
  if (line === 'ticket') console.log(offer.ticket())
  else console.log(JSON.stringify(offer.sent))
})
lines.on('close', () => process.exit())

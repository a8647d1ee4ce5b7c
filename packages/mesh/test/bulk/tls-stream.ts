/** A bare TLS stream of Node, as anybody would write it: `send <bytes>` says its port, `receive <host> <port>` its Gb/s. */
import { connect, createServer } from 'node:tls'
import type { AddressInfo } from 'node:net'
import { temporaryIdentity } from '../../src/identity/identity.ts'

const [role, ...given] = process.argv.slice(2)
if (role === 'send') {
  const { privateKeyPem: key, certificatePem: cert } = temporaryIdentity()
  const piece = Buffer.alloc(2 ** 16, 7)
  const most = Number(given[0])
  const server = createServer({ key, cert, minVersion: 'TLSv1.3' }, (socket) => {
    let sent = 0
    const go = (): void => {
      while (sent < most) {
        sent += piece.byteLength
        if (!socket.write(piece)) return void socket.once('drain', go)
      }
      socket.end(() => server.close())
    }
    go()
  }).listen(0, () => console.log((server.address() as AddressInfo).port))
} else {
  const [host, port] = given
  let bytes = 0
  const startedAt = performance.now()
  const socket = connect({ host, port: Number(port), rejectUnauthorized: false })
  socket.on('data', (piece: Buffer) => (bytes += piece.byteLength))
  socket.on('end', () => console.log((bytes * 8) / (performance.now() - startedAt) / 1e6))
}

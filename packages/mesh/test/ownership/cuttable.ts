import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

/** Stands before servers on loopback, as a network that can be cut. */
interface Cut extends AsyncDisposable {
  readonly endpoints: readonly string[]
  /**
   * Nothing goes over the connections that are there, nor over those that are made while it is cut, and nobody is told. Like a
   * TCP that waits ever longer until it tries once more, they stay silent when it is healed; new ones work.
   */
  cut(): void
  heal(): void
}

export async function cuttable(targets: readonly string[]): Promise<Cut> {
  const sockets = new Set<Socket>()
  let isCut = false
  const servers = targets.map((target) => {
    const { hostname, port } = new URL(target)
    return createServer((near) => {
      sockets.add(near)
      near.on('error', () => near.destroy())
      if (isCut) return
      const far = connect(Number(port), hostname)
      sockets.add(far)
      far.on('error', () => far.destroy())
      near.pipe(far).pipe(near)
      near.on('close', () => far.destroy())
      far.on('close', () => near.destroy())
    }).listen(0, '127.0.0.1')
  })
  await Promise.all(servers.map((server) => once(server, 'listening')))
  return {
    endpoints: servers.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    cut() {
      isCut = true
      for (const socket of sockets) socket.unpipe().pause()
    },
    heal() {
      isCut = false
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

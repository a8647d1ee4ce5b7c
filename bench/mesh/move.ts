import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Network } from '../../packages/mesh/test/helpers/namespaces.ts'
import type { MoveCommand } from '../../packages/mesh/test/remote/move-host.ts'
import type { Figure } from '../figure.ts'
import { hostLinks, linkedHosts } from './linked-hosts.ts'

const linkGbps = 2
/** The bar is for as many. Less with `EGPU_BENCH_MOVE_MIB`, where there are no 8 GiB of memory. */
const megabytes = Number(process.env['EGPU_BENCH_MOVE_MIB'] ?? 1_024)
/** Enough for half a gigabyte a second. */
const settleMs = 1_000 + megabytes * 2
const mostOverheadMs = 1_500

/** A host holds a state as often: as the workload has it, as it was frozen or restored, and in the store. */
const memoryNeeded = 3

/**
 * Where a page is touched for the first time, a virtual machine may take 20 µs for it: five seconds a gibibyte, which are
 * no part of a move. So the allocator keeps what was touched before.
 */
const env = {
  ...process.env,
  GLIBC_TUNABLES: 'glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=68719476736',
}

interface MovingHost {
  ask<T>(command: MoveCommand): Promise<T>
}

/** Two hosts joined by a link of 2 Gb/s; the eGPU of the first is pulled. How long until its work runs on the second? */
export async function measure(): Promise<Figure[]> {
  const [link] = hostLinks
  await using network = await linkedHosts([link], { from: 'a', gbps: linkGbps })
  const [a, b] = [await hostIn(network, 'a'), await hostIn(network, 'b')]
  const byteLength = megabytes * 2 ** 20
  await a.ask({ run: 'open', byteLength })
  const { nodeId, port } = await b.ask<{ nodeId: string; port: number }>({ run: 'open', byteLength })
  await a.ask({ run: 'dial', host: link.host, port })
  for (const host of [a, b]) await host.ask({ run: 'warm', byteLength: memoryNeeded * byteLength })
  await a.ask({ run: 'begin' })
  // A checkpoint is read and hashed once it is there, for whoever may want it; it was not made in the moment before the loss.
  await new Promise((resolve) => setTimeout(resolve, settleMs))
  const yankedAt = performance.now()
  await a.ask({ run: 'yank' })
  await a.ask({ run: 'move', peerId: nodeId })
  const tookMs = performance.now() - yankedAt
  const lineMs = (byteLength * 8) / linkGbps / 1e6
  const overheadMs = tookMs - lineMs
  return [
    {
      figure: `eGPU pulled on one host until its ${megabytes} MiB of work run on another, beyond the line`,
      value: overheadMs,
      unit: 'ms',
      against: `${lineMs.toFixed(0)} ms for the bytes at ${linkGbps} Gb/s; ${tookMs.toFixed(0)} ms in all`,
      ratio: tookMs / lineMs,
      bar: `<= ${mostOverheadMs} ms`,
      pass: overheadMs <= mostOverheadMs,
    },
  ]
}

async function hostIn(network: Network, name: string): Promise<MovingHost> {
  const script = fileURLToPath(new URL('../../packages/mesh/test/remote/move-host.ts', import.meta.url))
  const child = network.spawn(
    name,
    process.execPath,
    ['--expose-gc', '--conditions=@egpu/source', '--import=tsx', script],
    env,
  )
  await once(child, 'message')
  let lastId = 0
  return {
    async ask<T>(command: MoveCommand): Promise<T> {
      const id = (lastId += 1)
      const answered = new Promise<T>((resolve, reject) => {
        const hear = (message: { readonly id: number; readonly answer?: T; readonly error?: string }): void => {
          if (message.id !== id) return
          child.off('message', hear)
          if (message.error === undefined) resolve(message.answer as T)
          else reject(new Error(`${name}: ${message.error}`))
        }
        child.on('message', hear)
      })
      child.send({ id, command })
      return answered
    },
  }
}

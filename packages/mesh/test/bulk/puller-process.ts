/**
 * A receiver in a process of its own, which can be inside a network namespace. Takes one job over IPC, asks for tickets there,
 * and says how it went.
 */
import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { ChunkRef } from '../../src/bulk/chunk.ts'
import type { BulkLink } from '../../src/bulk/lane.ts'
import { chunkRefs } from '../../src/bulk/manifest.ts'
import { pullFile, pullManifest } from '../../src/bulk/pull-file.ts'
import { pull } from '../../src/bulk/pull.ts'
import type { BulkAddress } from '../../src/bulk/server.ts'

export interface PullJob {
  readonly address: BulkAddress
  readonly links: readonly BulkLink[]
  readonly ref: ChunkRef
  /** A file. Left out, what comes is thrown away. */
  readonly to?: string | undefined
  /** For what is thrown away; files are always checked. */
  readonly verify?: boolean | undefined
  readonly patienceMs?: number | undefined
}

export type PullNews =
  | { readonly kind: 'ready' }
  | { readonly kind: 'ticket' }
  | {
      readonly kind: 'done'
      readonly ms: number
      readonly bytes: number
      /** Over all connections, also what was no use. */
      readonly receivedBytes: number
      /** Resident memory: after a tenth of a second of work, and the most there was. */
      readonly rssBytes: { readonly early: number; readonly most: number }
    }
  | { readonly kind: 'failed'; readonly message: string; readonly receivedBytes: number }

const say = (news: PullNews): void => void process.send?.(news)
const sockets: Socket[] = []
subscribe('net.client.socket', (message) => void sockets.push((message as { readonly socket: Socket }).socket))
const receivedBytes = (): number => sockets.reduce((sum, { bytesRead }) => sum + bytesRead, 0)
const tickets: ((token: string) => void)[] = []

async function work({ address, links, ref, to, verify, patienceMs }: PullJob): Promise<void> {
  const ticket = (): Promise<string> =>
    new Promise((resolve) => {
      tickets.push(resolve)
      say({ kind: 'ticket' })
    })
  const stop = new AbortController()
  const rssBytes = { early: 0, most: 0 }
  const watching = (async () => {
    while (!stop.signal.aborted) {
      await pause(100, undefined, { signal: stop.signal }).catch(() => undefined)
      const { rss } = process.memoryUsage()
      if (rssBytes.early === 0) rssBytes.early = rss
      rssBytes.most = Math.max(rssBytes.most, rss)
    }
  })()
  const source = { address, links, ticket }
  const startedAt = performance.now()
  try {
    const { bytes } =
      to === undefined
        ? await pull(source, chunkRefs(await pullManifest(source, ref)), async () => {}, { verify, patienceMs })
        : await pullFile(source, ref, { to, patienceMs })
    const ms = performance.now() - startedAt
    stop.abort()
    await watching
    say({ kind: 'done', ms, bytes, receivedBytes: receivedBytes(), rssBytes })
  } catch (error) {
    stop.abort()
    say({ kind: 'failed', message: String(error), receivedBytes: receivedBytes() })
  }
}

process.on('message', (message: PullJob | { readonly token: string }) => {
  if ('token' in message) tickets.shift()?.(message.token)
  else void work(message)
})
say({ kind: 'ready' })

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { EGpuErrorCode } from '@egpu/core'
import { memoryStore } from '@egpu/migrator'
import type { CheckpointStore } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import type { Channel } from '../../src/control/channel.ts'
import type { RemoteRun } from '../../src/remote/remote-run.ts'
import { until } from '../helpers/planes.ts'
import { twoHosts } from './hosts.ts'
import { tallied } from './tally.ts'
import type { Tally } from './tally.ts'

const steps = 60
const chunkBytes = 2 ** 20
const chunks = 20
const byteLength = chunks * chunkBytes
const tally = { steps, byteLength }
/** On the first host, so that it is not done before it is moved. */
const half = { ...tally, haltAt: 30 }

interface Watched extends CheckpointStore {
  /** Checkpoints that were begun, and chunks that were written to them. */
  readonly begun: () => number
  readonly appended: () => number
  /** Called with the number of the chunk before it is written; what it throws is the store's failure. */
  onAppend: (chunk: number) => void
}

function watched(): Watched {
  const store = memoryStore()
  let begun = 0
  let appended = 0
  const self: Watched = {
    ...store,
    begun: () => begun,
    appended: () => appended,
    onAppend: () => {},
    begin: async (draft, options) => {
      begun += 1
      const writer = await store.begin(draft, options)
      return {
        ...writer,
        append: async (part, bytes) => {
          self.onAppend((appended += 1))
          await writer.append(part, bytes)
        },
      }
    },
  }
  return self
}

/** Bytes that this process reads from connections it makes. */
function wire(): { readonly bytes: () => number } & Disposable {
  const sockets: Socket[] = []
  const hear = (message: unknown): void => void sockets.push((message as { readonly socket: Socket }).socket)
  subscribe('net.client.socket', hear)
  return {
    bytes: () => sockets.reduce((sum, { bytesRead }) => sum + bytesRead, 0),
    [Symbol.dispose]: () => unsubscribe('net.client.socket', hear),
  }
}

type Hosts = Awaited<ReturnType<typeof twoHosts>>

/** A run on the first host whose eGPU is gone: its last checkpoint is what a move takes. */
async function yanked({ a }: Hosts): Promise<RemoteRun> {
  const run = await a.remote.run('tally', 'job')
  await until(() => run.run.latestCheckpoint?.progress === half.haltAt)
  a.driver.machine.enclosures[0]?.yank()
  await until(() => run.run.where === undefined)
  return run
}

function cut({ a, b }: Hosts): void {
  for (const { peers } of [a, b]) for (const channel of peers.connections()) (channel as Channel).close('link-down')
}

describe('a move that is broken off half way', { timeout: 180_000 }, () => {
  it('goes on where it was when it is tried again: what came does not travel twice', async () => {
    const store = watched()
    await using hosts = await twoHosts({ tally: half, encrypted: false }, { tally, store })
    const { a, b } = hosts
    const run = await yanked(hosts)
    using read = wire()
    store.onAppend = (chunk) => chunk === chunks / 2 && cut(hosts)
    await expect(run.moveToPeer(b.peers.nodeId)).rejects.toMatchObject({ code: EGpuErrorCode.MigrationFailed })
    expect(await store.list('job')).toEqual([])
    const arriving = new Promise<RemoteRun>((resolve) => b.remote.onRun(resolve))
    await hosts.dial('127.0.0.1')
    await run.moveToPeer(b.peers.nodeId)
    expect(store.appended()).toBe(chunks)
    // Manifests, heads and what the hosts say to each other are less than half a chunk.
    expect(read.bytes()).toBeGreaterThan(byteLength)
    expect(read.bytes()).toBeLessThan(byteLength + chunkBytes / 2)
    const there = await arriving
    expect(await there.ended).toEqual({ kind: 'done' })
    expect((there.workload as Tally).result).toBe(tallied(byteLength, steps))
    expect(a.remote.runs).toEqual([])
  })

  it('goes on by itself over another cable that is up', async () => {
    const store = watched()
    await using hosts = await twoHosts({ tally: half, encrypted: false }, { tally, store })
    await hosts.dial('127.0.0.2')
    const run = await yanked(hosts)
    const [busy, other] = hosts.a.peers.connections()
    expect(other).toBeDefined()
    store.onAppend = (chunk) => chunk === chunks / 2 && (busy as Channel).close('link-down')
    const arriving = new Promise<RemoteRun>((resolve) => hosts.b.remote.onRun(resolve))
    await run.moveToPeer(hosts.b.peers.nodeId)
    expect([store.begun(), store.appended()]).toEqual([1, chunks])
    const there = await arriving
    expect(await there.ended).toEqual({ kind: 'done' })
    expect((there.workload as Tally).result).toBe(tallied(byteLength, steps))
  })

  it('begins anew when the store lost what it had', async () => {
    const store = watched()
    await using hosts = await twoHosts({ tally: half, encrypted: false }, { tally, store })
    const run = await yanked(hosts)
    store.onAppend = (chunk) => {
      if (chunk === chunks / 2) throw new Error('the disk is full')
    }
    await expect(run.moveToPeer(hosts.b.peers.nodeId)).rejects.toThrow('the disk is full')
    const arriving = new Promise<RemoteRun>((resolve) => hosts.b.remote.onRun(resolve))
    await run.moveToPeer(hosts.b.peers.nodeId)
    expect(store.begun()).toBe(2)
    const there = await arriving
    expect(await there.ended).toEqual({ kind: 'done' })
    expect((there.workload as Tally).result).toBe(tallied(byteLength, steps))
  })
})

import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadIdentity, temporaryIdentity, ThunderboltMesh } from '@egpu/mesh'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { MeshPeers } from '../src/dashboard/mesh-peers.ts'
import { meshEventText } from '../src/output/mesh-event-text.ts'

vi.setConfig({ testTimeout: 60_000 })

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'egpu-mesh-peers-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

it('does nothing on a host that is paired with nobody', async () => {
  await using peers = new MeshPeers({ directory })
  for (let look = 0; look < 5; look += 1) {
    expect(peers.now()).toBeUndefined()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  expect(readdirSync(directory)).toEqual([])
})

it('shows a paired host with its link and what it offers, and that it has gone', async () => {
  const there = temporaryIdentity()
  const here = loadIdentity(directory)
  writeFileSync(
    join(directory, 'peers.json'),
    JSON.stringify({ version: 1, peers: [{ id: there.nodeId, name: 'tower', pairedAt: new Date().toISOString() }] }),
  )
  const tower = await ThunderboltMesh.discover({
    identity: there,
    isPaired: (id) => id === here.nodeId,
    name: 'tower',
    port: 0,
    settleMs: 0,
    targets: [{ id: 'gpu', name: 'RTX 5090', runtime: 'cuda', kind: 'gpu', removable: true, memoryBytes: 32e9 }],
  })
  await using peers = new MeshPeers({ directory, staticPeers: [`127.0.0.1:${tower.port}`] })
  const told: string[] = []
  const deaf = peers.listen(() => told.push('of what it did not want to hear'))
  deaf()
  peers.listen((event) => {
    const text = meshEventText(event)
    if (text !== undefined) told.push(text)
  })
  await expect.poll(() => peers.now()?.peers[0]?.targets.length, { timeout: 30_000 }).toBe(1)
  expect(peers.now()).toMatchObject({ problem: undefined, peers: [{ hostname: 'tower', id: there.nodeId }] })
  await expect
    .poll(() => peers.now()?.peers[0]?.links[0]?.measured.latencyUs, { timeout: 30_000 })
    .toEqual(expect.any(Number))
  await tower.close()
  await expect.poll(() => peers.now()?.peers, { timeout: 30_000 }).toEqual([])
  await expect.poll(() => told.at(-1), { timeout: 30_000 }).toBe('peer-lost: tower')
  const way = 'tower over lo, network, no cable'
  // In between, a link may be taken for silent on a busy machine, and come again.
  expect(told.slice(0, 2)).toEqual(['peer-connected: tower', `link-up: ${way}`])
  expect(told.slice(-2)).toEqual([expect.stringContaining(`link-down: ${way}: `), 'peer-lost: tower'])
})

it('says why the mesh cannot be joined', async () => {
  writeFileSync(join(directory, 'peers.json'), '{"peers": "everybody"}')
  await using peers = new MeshPeers({ directory })
  await expect.poll(() => peers.now()?.problem, { timeout: 30_000 }).toMatch(/peers\.json is not a list of peers/)
})

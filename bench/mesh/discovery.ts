import { MeshNetwork } from '../../packages/mesh/test/helpers/mesh-network.ts'
import { Network } from '../../packages/mesh/test/helpers/namespaces.ts'
import { percentile, type Figure } from '../figure.ts'

const names = ['a', 'b', 'c'] as const
const rounds = 8
const limitMs = 500
const cables = { thunderbolt0: {}, thunderbolt1: {} }

/** Three hosts in a triangle of cables: how long from "both ends are up" to "connected and authenticated", for every pair. */
export async function measure(): Promise<Figure[]> {
  const network = await Network.create({ hosts: names, lan: true })
  const end = (host: string, number: number): { host: string; interfaceName: string } => ({
    host,
    interfaceName: `thunderbolt${number}`,
  })
  await network.join(end('a', 0), end('b', 0))
  await network.join(end('b', 1), end('c', 0))
  await network.join(end('c', 1), end('a', 1))
  const settings = { settleMs: 0, probeBytes: 0 }
  await using mesh = new MeshNetwork(network, {
    a: { cables, settings },
    b: { cables, settings },
    c: { cables, settings },
  })
  const figures: Figure[] = []
  for (const lan of ['up', 'down'] as const) {
    await Promise.all(names.map((name) => network.ip(name, 'link', 'set', 'eth0', lan)))
    const found = await pairs(mesh)
    figures.push(
      limited(`pairs found p50, LAN ${lan}`, percentile(found.ms, 0.5)),
      limited(`pairs found p95, LAN ${lan}`, percentile(found.ms, 0.95)),
      {
        figure: `duplicate peers or links, LAN ${lan}`,
        value: found.duplicates,
        unit: 'in all',
        bar: '0',
        pass: found.duplicates === 0,
      },
    )
  }
  return [...figures, await lanBytes(mesh)]
}

async function pairs(mesh: MeshNetwork): Promise<{ readonly ms: number[]; readonly duplicates: number }> {
  const ms: number[] = []
  let duplicates = 0
  for (let round = 0; round < rounds; round += 1) {
    const since = Date.now()
    const started = await Promise.all(names.map(async (name) => [name, (await mesh.start(name)).at] as const))
    const upAt = new Map(started)
    for (const name of names)
      for (const other of names) {
        if (name === other) continue
        const { at } = await mesh.host(name).event('link-up', ({ peer }) => peer.hostname === other, since)
        ms.push(Math.max(0, at - Math.max(upAt.get(name) ?? 0, upAt.get(other) ?? 0)))
      }
    for (const name of names) {
      const { peers } = await mesh.host(name).read()
      duplicates += peers.length - new Set(peers.map(({ id }) => id)).size
      for (const { links } of peers) duplicates += links.length - 1
    }
    await Promise.all(names.map((name) => mesh.host(name).ask({ run: 'stop' })))
  }
  return { ms, duplicates }
}

/** A throughput probe between two hosts that a LAN joins as well. */
async function lanBytes(mesh: MeshNetwork): Promise<Figure> {
  const bytes = 32 * 1024 * 1024
  await Promise.all(names.map((name) => mesh.network.ip(name, 'link', 'set', 'eth0', 'up')))
  await Promise.all(names.map((name) => mesh.start(name, { settleMs: 5_000 })))
  const { peers } = await mesh.host('a').until(({ activePeerCount }) => activePeerCount === 2)
  const count = (): Promise<{ sent: number; received: number }> =>
    mesh.network.bytes({ host: 'a', interfaceName: 'eth0' })
  const before = await count()
  await mesh.host('a').measure(peers[0]?.links[0]?.id ?? '', bytes)
  const after = await count()
  const value = after.sent - before.sent + after.received - before.received
  // Neighbour discovery of the kernel itself goes on: a few hundred bytes.
  return {
    figure: 'bytes over the LAN while 64 MiB went over a cable',
    value,
    unit: 'B',
    against: '64 MiB',
    ratio: value / (2 * bytes),
    bar: '< 4 KiB',
    pass: value < 4_096,
  }
}

function limited(figure: string, value: number): Figure {
  return {
    figure,
    value,
    unit: 'ms',
    against: `${limitMs} ms`,
    ratio: value / limitMs,
    ...(figure.includes('p95') ? { bar: `<= ${limitMs} ms`, pass: value <= limitMs } : {}),
  }
}

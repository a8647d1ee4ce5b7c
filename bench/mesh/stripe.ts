import { mkdtemp, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { remotePull, tryRemotePull } from '../../packages/mesh/test/bulk/remote-puller.ts'
import { remoteSender } from '../../packages/mesh/test/bulk/remote-sender.ts'
import type { Network } from '../../packages/mesh/test/helpers/namespaces.ts'
import type { Figure } from '../figure.ts'
import { hostLinks, linkedHosts } from './linked-hosts.ts'
import type { HostLink } from './linked-hosts.ts'

const chunkBytes = 2 ** 22
const linkGbps = 2
const stripedBytes = 2 ** 29
/** As much is taken of /dev/shm; fewer where it is smaller. */
const flatBytes = Number(process.env['EGPU_BENCH_PULL_GIB'] ?? 8) * 2 ** 30
/** Buffers of all lanes, four megabytes each, and what V8 takes for itself. */
const mostGrowthBytes = 128 * 2 ** 20

const links = hostLinks

/** Two hosts joined by two links of 2 Gb/s: is a file there sooner over both, what does it take in memory, and after a cut? */
export async function measure(): Promise<Figure[]> {
  // In memory, so that no disk is measured.
  const home = await mkdtemp('/dev/shm/egpu-bench-stripe-')
  await using network = await linkedHosts(links, { from: 'b', gbps: linkGbps })
  try {
    return [await striped(network, home), await resumed(network, home), await flat(network, home)]
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

async function striped(network: Network, home: string): Promise<Figure> {
  const path = join(home, 'striped')
  await distinctChunks(path, stripedBytes)
  const gbps = async (used: readonly HostLink[]): Promise<number> => {
    await using sender = await senderOf(network, path)
    const to = join(home, 'striped-there')
    const { ms, bytes } = await remotePull(network, 'a', sender, { links: used, to })
    await rm(to)
    return (bytes * 8) / ms / 1e6
  }
  const [one, both] = [await gbps(links.slice(0, 1)), await gbps(links)]
  return {
    figure: `file to file over two links of ${linkGbps} Gb/s`,
    value: both,
    unit: 'Gb/s',
    against: `${one.toFixed(2)} Gb/s over one of them`,
    ratio: both / one,
    bar: '>= 1.6 x',
    pass: both / one >= 1.6,
  }
}

/** Both cables are pulled half way and for good; what had come is not sent again when they are back. */
async function resumed(network: Network, home: string): Promise<Figure> {
  const path = join(home, 'striped')
  await using sender = await senderOf(network, path)
  const chunks = stripedBytes / chunkBytes
  const to = join(home, 'resumed')
  const cables = (state: string): Promise<unknown> =>
    Promise.all(links.map(({ name }) => network.ip('b', 'link', 'set', name, state)))
  const first = tryRemotePull(network, 'a', sender, { links, to, patienceMs: 2_000 })
  while ((await sender.sent()).chunks < chunks / 2) await new Promise((resolve) => setTimeout(resolve, 10))
  await cables('down')
  const cut = await first
  await cables('up')
  const { receivedBytes } = await remotePull(network, 'a', sender, { links, to })
  await rm(to)
  // The manifest is content like any other and comes with each attempt.
  const twiceBytes = cut.receivedBytes + receivedBytes - stripedBytes - 2 * sender.ref.byteLength
  const again = twiceBytes / chunkBytes
  return {
    figure: 'chunks that came again after both cables were pulled half way',
    value: Math.round(again * 1_000) / 1_000,
    unit: 'chunks',
    against: `${chunks} chunks, ${links.length} links; the first attempt ${cut.kind === 'failed' ? 'was cut' : 'came whole'}`,
    bar: '<= 2',
    pass: cut.kind === 'failed' && again <= 2,
  }
}

async function flat(network: Network, home: string): Promise<Figure> {
  const path = join(home, 'flat')
  await distinctChunks(path, flatBytes)
  await using sender = await senderOf(network, path)
  const { rssBytes } = await remotePull(network, 'a', sender, { links, to: join(home, 'flat-there') })
  const growth = rssBytes.most - rssBytes.early
  return {
    figure: `memory of the receiver for ${flatBytes / 2 ** 30} GiB, most over early`,
    value: growth / 2 ** 20,
    unit: 'MiB',
    against: `${(rssBytes.early / 2 ** 20).toFixed(0)} MiB after 0.1 s`,
    ratio: growth / flatBytes,
    bar: `<= ${mostGrowthBytes / 2 ** 20} MiB, whatever the size`,
    pass: growth <= mostGrowthBytes,
  }
}

function senderOf(network: Network, path: string): ReturnType<typeof remoteSender> {
  const inside = (command: string, ...args: string[]): [string, string[]] => network.inside('b', command, ...args)
  return remoteSender({ path, encrypted: false, host: '::', chunkBytes, inside })
}

/**
 * Sparse, and no two chunks alike: content that occurs twice would travel once. Marked at both ends, or half a chunk with
 * a hole behind it would be the whole one.
 */
async function distinctChunks(path: string, byteLength: number): Promise<void> {
  const file = await open(path, 'w')
  try {
    await file.truncate(byteLength)
    const mark = Buffer.alloc(8)
    for (let offset = 0; offset < byteLength; offset += chunkBytes) {
      mark.writeDoubleBE(offset + 1)
      await file.write(mark, 0, mark.byteLength, offset)
      await file.write(mark, 0, mark.byteLength, offset + chunkBytes - mark.byteLength)
    }
  } finally {
    await file.close()
  }
}

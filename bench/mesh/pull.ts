import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pullManifest } from '../../packages/mesh/src/bulk/pull-file.ts'
import { chunkRefs } from '../../packages/mesh/src/bulk/manifest.ts'
import { pull } from '../../packages/mesh/src/bulk/pull.ts'
import { remoteSender } from '../../packages/mesh/test/bulk/remote-sender.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

/** In memory, so that no disk is measured. */
const memory = '/dev/shm'
/** Long enough that dialling, and compiling in the sender's fresh process, do not count. */
const byteLength = 2 ** 31
const rounds = 3

type Mode = 'plain' | 'integrity' | 'tlsOnly' | 'encrypted'

/** A pull from another process against iperf3 and against a bare TLS stream of Node, turn by turn, over loopback. */
export async function measure(): Promise<Figure[]> {
  const home = await mkdtemp(join(memory, 'egpu-bench-pull-'))
  try {
    const path = join(home, 'file')
    await noiseFile(path)
    const gbps: Record<Mode | 'iperf3' | 'tls', number[]> = {
      plain: [],
      integrity: [],
      tlsOnly: [],
      encrypted: [],
      iperf3: [],
      tls: [],
    }
    for (let round = 0; round < rounds; round += 1) {
      gbps.iperf3.push(await iperf3())
      gbps.plain.push(await pulled(path, 'plain'))
      gbps.integrity.push(await pulled(path, 'integrity'))
      gbps.tls.push(await bareTls())
      gbps.tlsOnly.push(await pulled(path, 'tlsOnly'))
      gbps.encrypted.push(await pulled(path, 'encrypted'))
    }
    return [
      compared('pull in the clear, unchecked', gbps.plain, gbps.iperf3, 'iperf3, one stream', 0.9),
      compared('pull in the clear, every SHA-256 checked', gbps.integrity, gbps.iperf3, 'iperf3, one stream', 0.7),
      compared('pull encrypted, checked by TLS alone', gbps.tlsOnly, gbps.tls, 'a bare TLS stream of Node', 0.8),
      compared('pull encrypted, every SHA-256 checked', gbps.encrypted, gbps.tls, 'a bare TLS stream of Node', 0.8),
    ]
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

function compared(figure: string, ours: number[], theirs: number[], against: string, bar: number): Figure {
  const value = percentile(ours, 0.5)
  const ratio = value / percentile(theirs, 0.5)
  return { figure, value, unit: 'Gb/s', against, ratio, bar: `>= ${bar} x`, pass: ratio >= bar }
}

async function noiseFile(path: string): Promise<void> {
  const { status } = spawnSync('dd', [
    'if=/dev/urandom',
    `of=${path}`,
    'bs=1M',
    `count=${byteLength / 2 ** 20}`,
    'status=none',
  ])
  if (status !== 0) throw new Error('dd failed')
}

function rate(startedAt: number): number {
  return (byteLength * 8) / (performance.now() - startedAt) / 1e6
}

async function pulled(path: string, mode: Mode): Promise<number> {
  await using sender = await remoteSender({ path, encrypted: mode === 'encrypted' || mode === 'tlsOnly' })
  const links = [{ name: 'loopback', host: '127.0.0.1' }]
  const source = { address: sender.address, links, ticket: () => sender.ticket() }
  const chunks = chunkRefs(await pullManifest(source, sender.ref))
  const startedAt = performance.now()
  const { bytes } = await pull(source, chunks, async () => {}, { verify: mode === 'integrity' || mode === 'encrypted' })
  if (bytes !== byteLength) throw new Error(`${bytes} of ${byteLength} bytes came`)
  return rate(startedAt)
}

async function iperf3(): Promise<number> {
  const port = await freePort()
  const server = spawn('iperf3', ['-s', '-1', '--forceflush', '-p', String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(server, 'exit')
  await once(server.stdout, 'data')
  const client = spawn('iperf3', ['-c', '127.0.0.1', '-p', String(port), '-n', String(byteLength), '-J'])
  const output = (await client.stdout.toArray()).join('')
  await exited
  return (
    (JSON.parse(output) as { end: { sum_received: { bits_per_second: number } } }).end.sum_received.bits_per_second /
    1e9
  )
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** `tls.connect` and 'data', between two other processes. */
async function bareTls(): Promise<number> {
  const script = fileURLToPath(new URL('../../packages/mesh/test/bulk/tls-stream.ts', import.meta.url))
  const args = ['--conditions=@egpu/source', '--import=tsx', script]
  const sender = spawn(process.execPath, [...args, 'send', String(byteLength)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [port] = (await once(sender.stdout, 'data')) as [Buffer]
  const receiver = spawn(process.execPath, [...args, 'receive', port.toString().trim()])
  return Number((await receiver.stdout.toArray()).join(''))
}

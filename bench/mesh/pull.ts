import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { remotePull } from '../../packages/mesh/test/bulk/remote-puller.ts'
import { remoteSender } from '../../packages/mesh/test/bulk/remote-sender.ts'
import { Network } from '../../packages/mesh/test/helpers/namespaces.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

/** In memory, so that no disk is measured. */
const memory = '/dev/shm'
/** Long enough that dialling, and compiling in fresh processes, do not count. */
const byteLength = 2 ** 31
const rounds = 3
const cable = 'thunderbolt0'
const [here, there] = ['10.78.0.1', '10.78.0.2'] as const

type Mode = 'plain' | 'integrity' | 'tlsOnly' | 'encrypted'

/** A pull from another host against iperf3 and against a bare TLS stream of Node, turn by turn, over one veth. */
export async function measure(): Promise<Figure[]> {
  const home = await mkdtemp(join(memory, 'egpu-bench-pull-'))
  await using network = await Network.create({ hosts: ['a', 'b'] })
  try {
    await network.join({ host: 'a', interfaceName: cable }, { host: 'b', interfaceName: cable })
    await network.ip('a', 'addr', 'add', `${here}/24`, 'dev', cable)
    await network.ip('b', 'addr', 'add', `${there}/24`, 'dev', cable)
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
      gbps.iperf3.push(await iperf3(network))
      gbps.plain.push(await pulled(network, path, 'plain'))
      gbps.integrity.push(await pulled(network, path, 'integrity'))
      gbps.tls.push(await bareTls(network))
      gbps.tlsOnly.push(await pulled(network, path, 'tlsOnly'))
      gbps.encrypted.push(await pulled(network, path, 'encrypted'))
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

async function pulled(network: Network, path: string, mode: Mode): Promise<number> {
  await using sender = await remoteSender({
    path,
    encrypted: mode === 'encrypted' || mode === 'tlsOnly',
    host: '::',
    inside: (command, ...args) => network.inside('b', command, ...args),
  })
  const { ms, bytes } = await remotePull(network, 'a', sender, {
    links: [{ name: cable, host: there }],
    verify: mode === 'integrity' || mode === 'encrypted',
  })
  if (bytes !== byteLength) throw new Error(`${bytes} of ${byteLength} bytes came`)
  return (bytes * 8) / ms / 1e6
}

async function iperf3(network: Network): Promise<number> {
  const server = network.spawn('b', 'iperf3', ['-s', '-1', '--forceflush'])
  const exited = once(server, 'exit')
  await once(server.stdout as NodeJS.ReadableStream, 'data')
  const output = await network.run('a', 'iperf3', '-c', there, '-R', '-n', String(byteLength), '-J')
  await exited
  const { end } = JSON.parse(output) as { end: { sum_received: { bits_per_second: number } } }
  return end.sum_received.bits_per_second / 1e9
}

/** `tls.connect` and 'data', between two hosts. */
async function bareTls(network: Network): Promise<number> {
  const script = fileURLToPath(new URL('../../packages/mesh/test/bulk/tls-stream.ts', import.meta.url))
  const args = ['--conditions=@egpu/source', '--import=tsx', script]
  const sender = network.spawn('b', process.execPath, [...args, 'send', String(byteLength)])
  const [port] = (await once(sender.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
  return Number(await network.run('a', process.execPath, ...args, 'receive', there, port.toString().trim()))
}

import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Network } from './namespaces.ts'

/** Reason to skip a test that needs etcd; `undefined` where it is installed. */
export const noEtcd: string | undefined =
  spawnSync('etcd', ['--version']).status === 0
    ? undefined
    : 'does not apply to this rig: there is no etcd (Debian: etcd-server)'

const clientPort = 2379
const peerPort = 2380

/** A real etcd, one member in each of some hosts of a network with a LAN. */
export class EtcdCluster implements AsyncDisposable {
  /** For `etcdCoordinator`. */
  readonly endpoints: readonly string[]
  readonly #network: Network
  readonly #home: string
  readonly #members: readonly string[]
  readonly #running = new Map<string, ChildProcess>()

  private constructor(network: Network, home: string, members: readonly string[]) {
    this.#network = network
    this.#home = home
    this.#members = members
    this.endpoints = members.map((host) => `http://${address(network, host)}:${clientPort}`)
  }

  /** Resolves once the cluster has a leader. */
  static async start(network: Network, members: readonly string[]): Promise<EtcdCluster> {
    // In memory: it is not the disk that is tested.
    const cluster = new EtcdCluster(network, await mkdtemp('/dev/shm/egpu-etcd-'), members)
    for (const host of members) cluster.run(host)
    await cluster.#healthy(members[0] as string)
    return cluster
  }

  get members(): readonly string[] {
    return this.#members
  }

  /** Starts a member, also again after a kill: it goes on from its data. */
  run(host: string): void {
    if (this.#running.has(host)) return
    const own = address(this.#network, host)
    const cluster = this.#members.map((each) => `${each}=http://${address(this.#network, each)}:${peerPort}`).join(',')
    const args = Object.entries({
      name: host,
      'data-dir': join(this.#home, host),
      'initial-cluster': cluster,
      'listen-client-urls': `http://0.0.0.0:${clientPort}`,
      'advertise-client-urls': `http://${own}:${clientPort}`,
      'listen-peer-urls': `http://0.0.0.0:${peerPort}`,
      'initial-advertise-peer-urls': `http://${own}:${peerPort}`,
      'heartbeat-interval': '100',
      'election-timeout': '1000',
      logger: 'zap',
      'log-level': 'panic',
    }).flatMap(([name, value]) => [`--${name}`, value])
    const [command, inside] = this.#network.inside(host, 'etcd', ...args)
    const child = spawn(command, inside, { stdio: 'ignore' })
    this.#running.set(host, child)
    child.once('exit', () => {
      if (this.#running.get(host) === child) this.#running.delete(host)
    })
  }

  signal(host: string, signal: NodeJS.Signals): void {
    this.#running.get(host)?.kill(signal)
  }

  async close(): Promise<void> {
    await Promise.all(
      [...this.#running.values()].map((child) => {
        const exited = new Promise((resolve) => child.once('exit', resolve))
        child.kill('SIGKILL')
        return exited
      }),
    )
    await rm(this.#home, { recursive: true, force: true })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #healthy(host: string): Promise<void> {
    const probe = `fetch('http://127.0.0.1:${clientPort}/health').then(async (r) => process.exit((await r.json()).health === 'true' ? 0 : 1), () => process.exit(1))`
    for (let attempt = 0; attempt < 60; attempt += 1) {
      const isUp = await this.#network.run(host, process.execPath, '-e', probe).then(
        () => true,
        () => false,
      )
      if (isUp) return
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    throw new Error('etcd did not come up')
  }
}

/** Of a host on the LAN of a network. */
export function address(network: Network, host: string): string {
  return `10.77.0.${network.hosts.indexOf(host) + 1}`
}

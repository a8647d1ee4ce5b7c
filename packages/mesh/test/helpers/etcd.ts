import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { lastWill, mortal } from './last-will.ts'
import type { Network } from './namespaces.ts'

/** Reason to skip a test that needs etcd; `undefined` where it is installed. */
export const noEtcd: string | undefined =
  spawnSync('etcd', ['--version']).status === 0
    ? undefined
    : 'does not apply to this rig: there is no etcd (Debian: etcd-server)'

interface Member {
  readonly name: string
  readonly host: string
  readonly clientPort: number
  readonly peerPort: number
  /** Milliseconds without a word of the leader until another is voted for. */
  readonly electionMs: number
  /** The command line as it runs where the member is. */
  readonly inside: (command: string, ...args: readonly string[]) => [string, string[]]
}

/** A real etcd of three members, which ends with this process at the latest and leaves nothing behind. */
export class EtcdCluster implements AsyncDisposable {
  /** For `etcdCoordinator`. */
  readonly endpoints: readonly string[]
  readonly #home: string
  readonly #remove: () => Promise<void>
  readonly #members: readonly Member[]
  readonly #running = new Map<string, ChildProcess>()

  private constructor(home: string, members: readonly Member[]) {
    this.#home = home
    // A member that is being killed may still write.
    this.#remove = lastWill(`until rm -rf ${home}; do sleep 0.1; done`)
    this.#members = members
    this.endpoints = members.map(({ host, clientPort }) => `http://${host}:${clientPort}`)
  }

  /** One member in each of some hosts of a network with a LAN. Resolves once there is a leader. */
  static start(network: Network, names: readonly string[]): Promise<EtcdCluster> {
    return EtcdCluster.#start(
      names.map((name) => ({
        name,
        host: address(network, name),
        clientPort: 2_379,
        peerPort: 2_380,
        electionMs: 1_000,
        inside: (command, ...args) => network.inside(name, command, ...args),
      })),
    )
  }

  /** All on loopback; a member may be out of breath for seconds and stays the leader. */
  static async onLoopback(): Promise<EtcdCluster> {
    const members: Member[] = []
    for (const name of ['e1', 'e2', 'e3']) {
      const [clientPort, peerPort] = [await freePort(), await freePort()]
      members.push({
        name,
        host: '127.0.0.1',
        clientPort,
        peerPort,
        electionMs: 5_000,
        inside: mortal,
      })
    }
    return EtcdCluster.#start(members)
  }

  static async #start(members: readonly Member[]): Promise<EtcdCluster> {
    // In memory: it is not the disk that is tested.
    const cluster = new EtcdCluster(await mkdtemp('/dev/shm/egpu-etcd-'), members)
    for (const { name } of members) cluster.run(name)
    await cluster.#healthy()
    return cluster
  }

  get members(): readonly string[] {
    return this.#members.map(({ name }) => name)
  }

  /** Starts a member, also again after a kill: it goes on from its data. */
  run(name: string): void {
    const member = this.#members.find((each) => each.name === name)
    if (member === undefined || this.#running.has(name)) return
    const { host, clientPort, peerPort, electionMs, inside } = member
    const args = Object.entries({
      name,
      'data-dir': join(this.#home, name),
      'initial-cluster': this.#members.map((each) => `${each.name}=http://${each.host}:${each.peerPort}`).join(','),
      'listen-client-urls': `http://${host}:${clientPort}`,
      'advertise-client-urls': `http://${host}:${clientPort}`,
      'listen-peer-urls': `http://${host}:${peerPort}`,
      'initial-advertise-peer-urls': `http://${host}:${peerPort}`,
      'heartbeat-interval': String(electionMs / 10),
      'election-timeout': String(electionMs),
      logger: 'zap',
      'log-level': 'panic',
    }).flatMap(([option, value]) => [`--${option}`, value])
    const child = spawn(...inside('etcd', ...args), { stdio: 'ignore' })
    this.#running.set(name, child)
    child.once('exit', () => {
      if (this.#running.get(name) === child) this.#running.delete(name)
    })
  }

  signal(name: string, signal: NodeJS.Signals): void {
    this.#running.get(name)?.kill(signal)
  }

  /** All members lose all they had, at the addresses they had. */
  async loseData(): Promise<void> {
    await this.#killAll()
    for (const { name } of this.#members) {
      await rm(join(this.#home, name), { recursive: true, force: true })
      this.run(name)
    }
    await this.#healthy()
  }

  async close(): Promise<void> {
    await this.#killAll()
    await this.#remove()
  }

  async #killAll(): Promise<void> {
    await Promise.all(
      [...this.#running.values()].map((child) => {
        const exited = new Promise((resolve) => child.once('exit', resolve))
        child.kill('SIGKILL')
        return exited
      }),
    )
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #healthy(): Promise<void> {
    const { inside, host, clientPort } = this.#members[0] as Member
    const look = `fetch('http://${host}:${clientPort}/health').then(async (answer) => process.exit((await answer.json()).health === 'true' ? 0 : 1), () => process.exit(1))`
    for (let attempt = 0; attempt < 600; attempt += 1) {
      const [command, args] = inside(process.execPath, '-e', look)
      const child = spawn(command, args, { stdio: 'ignore' })
      if ((await new Promise((resolve) => child.once('exit', resolve))) === 0) return
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    await this.close()
    throw new Error('etcd did not come up')
  }
}

/** Of a host on the LAN of a network. */
function address(network: Network, host: string): string {
  return `10.77.0.${network.hosts.indexOf(host) + 1}`
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

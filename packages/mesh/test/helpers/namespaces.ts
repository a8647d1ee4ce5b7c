import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { promisify } from 'node:util'
import { cable, type Cable, type CableOptions } from './cable.ts'
import { lastWill, mortal } from './last-will.ts'

const run = promisify(execFile)

/** Reason to skip a test that makes network namespaces; `undefined` where it can. */
export const noNamespaces: string | undefined =
  process.platform !== 'linux'
    ? 'does not apply to this rig: network namespaces are a thing of Linux'
    : process.getuid?.() !== 0
      ? 'does not apply to this rig: making network namespaces needs root'
      : undefined

export interface NetworkOptions {
  readonly hosts: readonly string[]
  /** `true` joins all hosts by a bridge, as `eth0` with 10.77.0.x/24. */
  readonly lan?: boolean | undefined
  /** Duplicate address detection costs 1 to 2 s per interface; off unless asked for. */
  readonly addressDetection?: boolean | undefined
}

export interface CableEnd {
  readonly host: string
  readonly interfaceName: string
}

/**
 * Hosts as network namespaces, joined by cables. Everything is named after this process, so that several rigs can be up at
 * once, and removed on dispose, or when this process is killed.
 */
export class Network implements AsyncDisposable {
  readonly hosts: readonly string[]
  readonly #prefix: string
  readonly #children = new Set<ChildProcess>()
  readonly #cables = new Set<Cable>()
  readonly #remove: () => Promise<void>
  #closed = false

  private constructor(prefix: string, hosts: readonly string[]) {
    this.#prefix = prefix
    this.hosts = hosts
    this.#remove = lastWill([...hosts, 'lan'].map((host) => `ip netns del ${this.namespace(host)}`).join(';'))
  }

  static async create({ hosts, lan = false, addressDetection = false }: NetworkOptions): Promise<Network> {
    const network = new Network(`egpu-mesh-${process.pid}-${(count += 1)}`, hosts)
    const lines = hosts.flatMap((host) => {
      const name = network.namespace(host)
      return [
        `ip netns add ${name}`,
        addressDetection
          ? ''
          : `ip netns exec ${name} sh -c 'for kind in default all; do echo 0 > /proc/sys/net/ipv6/conf/$kind/accept_dad; done'`,
        `ip -n ${name} link set lo up`,
      ]
    })
    if (lan) lines.push(...network.#lan())
    try {
      await sh(lines)
    } catch (error) {
      await network.close()
      throw error
    }
    return network
  }

  namespace(host: string): string {
    return `${this.#prefix}-${host}`
  }

  /** A veth pair: fast, TCP offload works, no delay. `mtu` may differ per end. */
  async join(
    a: CableEnd,
    b: CableEnd,
    { mtu = 65_520, mtuB = mtu }: { mtu?: number; mtuB?: number } = {},
  ): Promise<void> {
    const [one, other] = [this.namespace(a.host), this.namespace(b.host)]
    await sh([
      `ip -n ${one} link add ${a.interfaceName} mtu ${mtu} type veth peer name ${b.interfaceName} netns ${other}`,
      `ip -n ${other} link set ${b.interfaceName} mtu ${mtuB}`,
      `ip -n ${one} link set ${a.interfaceName} up`,
      `ip -n ${other} link set ${b.interfaceName} up`,
    ])
  }

  /** A cable in user space with delay, loss and carrier; slower than `join` and without TCP offload. */
  async cable(a: CableEnd, b: CableEnd, options: CableOptions = {}): Promise<Cable> {
    const file = (end: CableEnd): string => `/run/netns/${this.namespace(end.host)}`
    const made = await cable([file(a), a.interfaceName], [file(b), b.interfaceName], options)
    this.#cables.add(made)
    await sh(
      [a, b].flatMap((end) => [
        `ip -n ${this.namespace(end.host)} link set ${end.interfaceName} mtu ${options.mtu ?? 65_520}`,
        `ip -n ${this.namespace(end.host)} link set ${end.interfaceName} up`,
      ]),
    )
    return made
  }

  /** `ip` inside a host: `ip('a', 'link', 'set', 'thunderbolt0', 'down')`. */
  async ip(host: string, ...args: readonly string[]): Promise<string> {
    return (await run('ip', ['-n', this.namespace(host), ...args])).stdout
  }

  /** Limits what leaves by an interface, with a token bucket: exact, unlike anything in user space. */
  async limit({ host, interfaceName }: CableEnd, gbps: number): Promise<void> {
    const rate = `${Math.round(gbps * 1_000)}mbit`
    const bucket = ['tbf', 'rate', rate, 'burst', '2mb', 'latency', '20ms']
    await run('tc', ['-n', this.namespace(host), 'qdisc', 'replace', 'dev', interfaceName, 'root', ...bucket])
  }

  /** The command and its arguments as they run inside a host, no longer than this process does. */
  inside(host: string, command: string, ...args: readonly string[]): [string, string[]] {
    return mortal('ip', 'netns', 'exec', this.namespace(host), command, ...args)
  }

  /** Runs a command inside a host and resolves to what it printed. */
  async run(host: string, command: string, ...args: readonly string[]): Promise<string> {
    return (await run(...this.inside(host, command, ...args), { maxBuffer: 64 * 2 ** 20 })).stdout
  }

  /** A child process inside a host with an IPC channel; killed on dispose. */
  spawn(host: string, command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): ChildProcess {
    const child = spawn(...this.inside(host, command, ...args), { env, stdio: ['pipe', 'pipe', 'inherit', 'ipc'] })
    this.#children.add(child)
    child.once('exit', () => this.#children.delete(child))
    return child
  }

  /** Bytes an interface has sent and received. */
  async bytes({ host, interfaceName }: CableEnd): Promise<{ readonly sent: number; readonly received: number }> {
    const text = await this.ip(host, '-j', '-s', 'link', 'show', 'dev', interfaceName)
    const [{ stats64 }] = JSON.parse(text) as [{ stats64: { rx: { bytes: number }; tx: { bytes: number } } }]
    return { sent: stats64.tx.bytes, received: stats64.rx.bytes }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const exits = [...this.#children].map((child) => new Promise((resolve) => child.once('exit', resolve)))
    for (const child of this.#children) child.kill('SIGKILL')
    await Promise.all([...exits, ...[...this.#cables].map((made) => made.close())])
    await this.#remove()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #lan(): string[] {
    const bridge = this.namespace('lan')
    return [
      `ip netns add ${bridge}`,
      `ip -n ${bridge} link add lan type bridge`,
      `ip -n ${bridge} link set lan up`,
      ...this.hosts.flatMap((host, index) => {
        const name = this.namespace(host)
        return [
          `ip -n ${bridge} link add port${index} type veth peer name eth0 netns ${name}`,
          `ip -n ${bridge} link set port${index} master lan`,
          `ip -n ${bridge} link set port${index} up`,
          `ip -n ${name} addr add 10.77.0.${index + 1}/24 dev eth0`,
          `ip -n ${name} link set eth0 up`,
          `ip -n ${name} route add default via 10.77.0.254 dev eth0`,
        ]
      }),
    ]
  }
}

let count = 0

async function sh(lines: readonly string[]): Promise<void> {
  await run('sh', ['-ec', lines.join('\n')])
}

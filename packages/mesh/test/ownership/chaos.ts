import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { TokenBook } from '../../src/ownership/token-book.ts'
import { EtcdCluster } from '../helpers/etcd.ts'
import { Network } from '../helpers/namespaces.ts'

export interface ChaosOptions {
  readonly schedules: number
  /** Pairs of hosts that go through schedules of their own at the same time. */
  readonly pairs: number
  readonly seed: number
  /** Called after each schedule. */
  readonly onSchedule?: ((done: number) => void) | undefined
}

export interface ChaosResult {
  readonly schedules: number
  readonly faults: Readonly<Record<string, number>>
  /** Two hosts that both believed, at one moment, that they own the same resource. */
  readonly doubleOwners: number
  /** Commits with a token lower than one the store had seen, and those of them that it took. */
  readonly staleCommits: number
  readonly staleAccepted: number
  readonly acceptedCommits: number
  readonly changesOfHands: number
  /** Of hosts that were killed while they owned something. */
  readonly takeovers: readonly Takeover[]
}

export interface Takeover {
  /** From the kill until somebody else owned what the host had. */
  readonly ms: number
  /** Whether the other host was well, and etcd had a majority, from the kill on for as long as a takeover may take. */
  readonly wasPossible: boolean
}

const members = ['e1', 'e2', 'e3']
export const leaseSeconds = 2
/** How long a takeover may take. */
export const takeoverBarMs: number = leaseSeconds * 1_000 + 2_000
/** Without a write that etcd took for so long, it is counted as without a majority. */
const witnessGapMs = 1_000

/**
 * Pairs of hosts contend for resources through a real etcd of three members while both, and etcd, are stopped, killed,
 * cut off and have their clocks set, at random.
 */
export async function chaos({ schedules, pairs, seed, onSchedule }: ChaosOptions): Promise<ChaosResult> {
  const home = await mkdtemp(join(tmpdir(), 'egpu-chaos-'))
  const hosts = Array.from({ length: pairs * 2 }, (_, index) => `h${index}`)
  const random = randomFrom(seed)
  try {
    await using network = await Network.create({ hosts: [...members, ...hosts, 'witness'], lan: true })
    await using etcd = await EtcdCluster.start(network, members)
    await using store = await Store.open(join(home, 'store'))
    const program = await bundled(home)
    const writesMs: number[] = []
    const rig: Rig = { program, network, etcd, store, home, random, faults: new Map(), troubles: [], writesMs }
    const witness = fileURLToPath(new URL('./quorum-witness.ts', import.meta.url))
    network
      .spawn('witness', process.execPath, ['--import=tsx', witness, ...etcd.endpoints])
      .on('message', ({ atMs }: { readonly atMs: number }) => writesMs.push(atMs))
    const lanes = Array.from({ length: pairs }, (_, pair) => [`h${pair * 2}`, `h${pair * 2 + 1}`] as const)
    const contenders = lanes.flatMap((lane, pair) => lane.map((host) => new Contender(rig, host, `r${pair}`)))
    await Promise.all(contenders.map((contender) => contender.run()))
    const each = Math.ceil(schedules / pairs)
    let done = 0
    const stop = new AbortController()
    const shaking = shakeEtcd(rig, stop.signal)
    await Promise.all(
      lanes.map(async (_, pair) => {
        for (let round = 0; round < each; round += 1) {
          await schedule(rig, contenders.slice(pair * 2, pair * 2 + 2))
          onSchedule?.((done += 1))
        }
      }),
    )
    stop.abort()
    await shaking
    await Promise.all(contenders.map((contender) => contender.end()))
    return judge(rig, hosts, each * pairs)
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

/** One file that starts at once: hosts that are killed are started again all the time. */
async function bundled(home: string): Promise<string> {
  const outfile = join(home, 'contender.mjs')
  const etcd3 = createRequire(import.meta.url).resolve('etcd3')
  await build({
    entryPoints: [fileURLToPath(new URL('./contender.ts', import.meta.url))],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: ['@egpu/source'],
    // Loads its .proto files from beside itself.
    alias: { etcd3 },
    external: [etcd3],
    logLevel: 'error',
  })
  return outfile
}

interface Rig {
  readonly program: string
  readonly network: Network
  readonly etcd: EtcdCluster
  readonly store: Store
  readonly home: string
  readonly random: () => number
  readonly faults: Map<string, number>
  readonly troubles: Trouble[]
  /** When etcd took a write of the witness. */
  readonly writesMs: readonly number[]
}

interface Trouble {
  readonly host: string
  readonly kind: HostFault
  readonly fromMs: number
  untilMs: number
}

const hostFaults = ['partition', 'stop', 'kill', 'clock'] as const
type HostFault = (typeof hostFaults)[number]

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** One to three faults at random moments, healed at random moments. */
async function schedule(rig: Rig, contenders: readonly Contender[]): Promise<void> {
  const { random } = rig
  const count = 1 + Math.floor(random() * 3)
  await Promise.all(
    Array.from({ length: count }, async () => {
      const contender = contenders[Math.floor(random() * contenders.length)] as Contender
      const kind = pick(random, hostFaults)
      await pause(random() * 1_500)
      rig.faults.set(kind, (rig.faults.get(kind) ?? 0) + 1)
      await contender.suffer(kind, 300 + random() * 3_500)
    }),
  )
}

/** etcd has troubles of its own, one member at a time and now and then a majority. */
async function shakeEtcd({ etcd, network, random, faults }: Rig, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(3_000 + random() * 5_000)
    const victims = random() < 0.2 ? ['e1', 'e2'] : [pick(random, members)]
    const kind = pick(random, ['etcd partition', 'etcd stop', 'etcd kill'] as const)
    faults.set(kind, (faults.get(kind) ?? 0) + 1)
    for (const host of victims) {
      if (kind === 'etcd stop') etcd.signal(host, 'SIGSTOP')
      if (kind === 'etcd kill') etcd.signal(host, 'SIGKILL')
      if (kind === 'etcd partition') await plug(network, host, false)
    }
    await pause(500 + random() * 3_000)
    for (const host of victims) {
      if (kind === 'etcd stop') etcd.signal(host, 'SIGCONT')
      if (kind === 'etcd kill') etcd.run(host)
      if (kind === 'etcd partition') await plug(network, host, true)
    }
  }
}

/** Off the bridge with its carrier on: packets go nowhere and nobody is told. */
async function plug(network: Network, host: string, isIn: boolean): Promise<void> {
  const port = `port${network.hosts.indexOf(host)}`
  await network.ip('lan', 'link', 'set', port, ...(isIn ? ['master', 'lan'] : ['nomaster']))
}

class Contender {
  readonly #rig: Rig
  readonly #host: string
  readonly #resource: string
  #child: ChildProcess | undefined
  /** One fault of a kind at a time. */
  readonly #suffering = new Set<string>()

  constructor(rig: Rig, host: string, resource: string) {
    this.#rig = rig
    this.#host = host
    this.#resource = resource
  }

  async run(): Promise<void> {
    const { program, network, etcd, store, home } = this.#rig
    const child = network.spawn(this.#host, process.execPath, [
      program,
      this.#host,
      join(home, `${this.#host}.log`),
      store.path,
      etcd.endpoints.join(','),
      String(leaseSeconds),
      this.#resource,
    ])
    this.#child = child
    await Promise.race([once(child, 'message'), once(child, 'exit')])
  }

  async suffer(kind: HostFault, forMs: number): Promise<void> {
    if (this.#suffering.has(kind)) return
    this.#suffering.add(kind)
    const { network, random, troubles } = this.#rig
    const child = this.#child
    const trouble: Trouble = { host: this.#host, kind, fromMs: nowMs(), untilMs: Infinity }
    troubles.push(trouble)
    if (kind === 'partition') await plug(network, this.#host, false)
    if (kind === 'stop') child?.kill('SIGSTOP')
    // One that was killed meanwhile hears nothing.
    if (kind === 'clock') child?.send({ jumpMs: (random() - 0.5) * 7_200_000 }, () => {})
    if (kind === 'kill') {
      child?.kill('SIGKILL')
      if (child?.exitCode === null && child.signalCode === null) await once(child, 'exit')
    }
    await pause(forMs)
    if (kind === 'partition') await plug(network, this.#host, true)
    if (kind === 'stop') child?.kill('SIGCONT')
    if (kind === 'kill') await this.run()
    trouble.untilMs = nowMs()
    this.#suffering.delete(kind)
  }

  async end(): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
}

/** What owners commit to. Reached through a socket file, so that no partition of the network keeps a stale owner away. */
class Store implements AsyncDisposable {
  readonly path: string
  stale = 0
  staleAccepted = 0
  accepted = 0
  readonly #server: Server

  private constructor(path: string, server: Server) {
    this.path = path
    this.#server = server
  }

  static async open(path: string): Promise<Store> {
    const book = await TokenBook.open()
    const highest = new Map<string, number>()
    const server = createServer((socket) => {
      socket.on('error', () => {})
      let rest = ''
      socket.on('data', (bytes) => {
        const lines = `${rest}${bytes.toString()}`.split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          const [resource = '', token = '0'] = line.split(' ')
          void book.see(resource, Number(token)).then(
            () => answer(resource, Number(token), true),
            () => answer(resource, Number(token), false),
          )
        }
      })
      const answer = (resource: string, token: number, accepted: boolean): void => {
        // Counted by itself, not by the book that is being tested.
        const isStale = token < (highest.get(resource) ?? 0)
        if (isStale) store.stale += 1
        if (isStale && accepted) store.staleAccepted += 1
        if (accepted) store.accepted += 1
        if (!isStale && accepted) highest.set(resource, token)
        socket.write(accepted ? 'ok\n' : 'stale\n')
      }
    })
    const store = new Store(path, server)
    server.listen(path)
    await once(server, 'listening')
    return store
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
  }
}

interface Line {
  readonly self: string
  readonly kind: 'claim' | 'work' | 'released' | 'lost' | 'late'
  readonly resource: string
  readonly token: number
  readonly fromMs: number
  readonly untilMs: number
  readonly atMs: number
}

interface Reign {
  readonly owner: string
  readonly token: number
  readonly fromMs: number
  untilMs: number
}

function judge(rig: Rig, hosts: readonly string[], schedules: number): ChaosResult {
  const { home, troubles, store, faults } = rig
  const reigns = new Map<string, Reign[]>()
  for (const host of hosts) {
    const log = join(home, `${host}.log`)
    if (!existsSync(log)) continue
    for (const text of readFileSync(log, 'utf8').split('\n')) {
      if (!text.endsWith('}')) continue
      const line = JSON.parse(text) as Line
      const known = reigns.get(line.resource) ?? []
      reigns.set(line.resource, known)
      const reign = known.find(({ token, owner }) => token === line.token && owner === host)
      if (line.kind === 'claim' && reign !== undefined) reign.untilMs = line.untilMs
      if (line.kind === 'claim' && reign === undefined) {
        known.push({ owner: host, token: line.token, fromMs: line.fromMs, untilMs: line.untilMs })
      }
      if (line.kind === 'released' && reign !== undefined) reign.untilMs = Math.min(reign.untilMs, line.atMs)
    }
  }
  let doubleOwners = 0
  let changesOfHands = 0
  const takeovers: Takeover[] = []
  for (const known of reigns.values()) {
    known.sort((a, b) => a.fromMs - b.fromMs)
    // A process that is dead believes nothing.
    for (const reign of known) {
      const death = troubles.find(
        ({ host, kind, fromMs }) =>
          host === reign.owner && kind === 'kill' && fromMs > reign.fromMs && fromMs < reign.untilMs,
      )
      if (death === undefined) continue
      reign.untilMs = death.fromMs
      const next = known.find(({ fromMs, owner }) => fromMs > death.fromMs && owner !== reign.owner)
      const own = known.find(({ fromMs, owner }) => fromMs > death.fromMs && owner === reign.owner)
      if (next === undefined || (own !== undefined && own.fromMs < next.fromMs)) continue
      const until = Math.min(next.fromMs, death.fromMs + takeoverBarMs)
      const wasPossible = isWell(rig, next.owner, death.fromMs, until) && hadMajority(rig, death.fromMs, until)
      takeovers.push({ ms: next.fromMs - death.fromMs, wasPossible })
    }
    let beforeMs = -Infinity
    let token = 0
    for (const reign of known) {
      changesOfHands += 1
      if (reign.fromMs < beforeMs || reign.token <= token) doubleOwners += 1
      beforeMs = Math.max(beforeMs, reign.untilMs)
      token = reign.token
    }
  }
  return {
    schedules,
    faults: Object.fromEntries(faults),
    doubleOwners,
    staleCommits: store.stale,
    staleAccepted: store.staleAccepted,
    acceptedCommits: store.accepted,
    changesOfHands,
    takeovers,
  }
}

/** Neither stopped nor killed nor cut off. A clock that was set is no excuse. */
function isWell({ troubles }: Rig, host: string, fromMs: number, untilMs: number): boolean {
  return !troubles.some(
    (trouble) =>
      trouble.host === host && trouble.kind !== 'clock' && trouble.fromMs < untilMs && trouble.untilMs > fromMs,
  )
}

function hadMajority({ writesMs }: Rig, fromMs: number, untilMs: number): boolean {
  const during = writesMs.filter((atMs) => atMs > fromMs && atMs < untilMs)
  return [...during, untilMs].every((atMs, index) => atMs - (during[index - 1] ?? fromMs) < witnessGapMs)
}

function pick<T>(random: () => number, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T
}

/** mulberry32 */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

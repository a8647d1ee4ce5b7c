import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { MeshEvent, MeshEventType } from '../../src/events.ts'
import { loadIdentity, savePeer } from '../../src/identity/mesh-directory.ts'
import type { BestPeer, MeshLink, MeshPeer, Neighbour } from '../../src/peer.ts'
import type { HostCommand, HostSettings } from './mesh-host.ts'
import type { Network } from './namespaces.ts'
import { makeSysfs, type RemoteHost, type SysfsHost } from './sysfs.ts'

/** A plain `Omit` would forget which command has which fields. */
type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never

export interface HostReading {
  readonly peers: readonly MeshPeer[]
  readonly neighbours: readonly Neighbour[]
  readonly findings: readonly { readonly code: string; readonly seen: string }[]
  readonly activePeerCount: number
  readonly totalBandwidthGbps: number
}

export interface HostStart {
  readonly nodeId: string
  readonly port: number
  /** When it was up. */
  readonly at: number
}

export type HostEvent = MeshEvent & { readonly at: number }

/** A host that runs a mesh, steered from the test. */
export class MeshHost {
  readonly name: string
  readonly child: ChildProcess
  readonly events: HostEvent[] = []
  readonly #answers = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>()
  readonly #ready: Promise<void>
  #lastId = 0

  constructor(name: string, child: ChildProcess) {
    this.name = name
    this.child = child
    this.#ready = new Promise((resolve) =>
      child.on(
        'message',
        (message: { ready?: true; event?: HostEvent; id?: number; answer?: unknown; error?: string }) => {
          if (message.ready === true) resolve()
          if (message.event !== undefined) this.events.push(message.event)
          const waiting = message.id === undefined ? undefined : this.#answers.get(message.id)
          if (message.error === undefined) waiting?.resolve(message.answer)
          else waiting?.reject(new Error(`${name}: ${message.error}`))
        },
      ),
    )
  }

  async ask<T = unknown>(command: WithoutId<HostCommand>): Promise<T> {
    await this.#ready
    const id = (this.#lastId += 1)
    return new Promise<T>((resolve, reject) => {
      this.#answers.set(id, { resolve, reject })
      this.child.send({ ...command, id })
    })
  }

  read(): Promise<HostReading> {
    return this.ask({ run: 'read' })
  }

  best(purpose: 'latency' | 'bandwidth' | 'memory'): Promise<BestPeer | undefined> {
    return this.ask({ run: 'best', for: purpose })
  }

  measure(linkId: string, bytes?: number): Promise<MeshLink> {
    return this.ask(bytes === undefined ? { run: 'measure', linkId } : { run: 'measure', linkId, bytes })
  }

  /** The first event of a type after `since`, also one that came before the call. */
  async event<T extends MeshEventType>(
    type: T,
    where: (event: MeshEvent<T>) => boolean = () => true,
    since = 0,
  ): Promise<MeshEvent<T> & { readonly at: number }> {
    for (;;) {
      const found = this.events.find(
        (event) => event.type === type && event.at >= since && where(event as unknown as MeshEvent<T>),
      )
      if (found !== undefined) return found as unknown as MeshEvent<T> & { readonly at: number }
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  async until(condition: (reading: HostReading) => boolean): Promise<HostReading> {
    for (;;) {
      const reading = await this.read()
      if (condition(reading)) return reading
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

export interface HostPlan {
  /** Cables by their interface, as the host's sysfs describes them; `route` gets the number of the interface. */
  readonly cables: Readonly<Record<string, Partial<RemoteHost>>>
  readonly sysfs?: Partial<SysfsHost> | undefined
  readonly settings?: Partial<HostSettings> | undefined
}

/** Starts a paired mesh host in every namespace of a network. */
export class MeshNetwork implements AsyncDisposable {
  readonly network: Network
  readonly folder: string = mkdtempSync(join(tmpdir(), 'egpu-mesh-test-'))
  readonly #hosts = new Map<string, MeshHost>()
  readonly ids: Readonly<Record<string, string>>
  readonly #settings = new Map<string, HostSettings>()

  constructor(network: Network, plans: Readonly<Record<string, HostPlan>>) {
    this.network = network
    const names = Object.keys(plans)
    const identities = names.map((name) => loadIdentity(join(this.folder, name), 'machine'))
    this.ids = Object.fromEntries(names.map((name, index) => [name, identities[index]?.nodeId ?? '']))
    for (const name of names)
      for (const other of names)
        if (name !== other)
          savePeer(join(this.folder, name), { id: this.ids[other] as string, name: other, pairedAt: 'now' })
    for (const [index, [name, plan]] of Object.entries(plans).entries()) {
      const sysfs = join(this.folder, `${name}-sys`)
      mkdirSync(sysfs)
      makeSysfs(sysfs, {
        controllers: [{ uuid: `uuid-${name}`, remotes: Object.entries(plan.cables).map(remoteOf) }],
        ...plan.sysfs,
      })
      this.#settings.set(name, {
        name,
        sysfs,
        directory: join(this.folder, name),
        hostTag: randomBytes(8).toString('hex'),
        privateKeyPem: identities[index]?.privateKeyPem,
        ...plan.settings,
      })
      this.#hosts.set(name, this.#spawn(name))
    }
  }

  host(name: string): MeshHost {
    return this.#hosts.get(name) as MeshHost
  }

  start(name: string, settings: Partial<HostSettings> = {}): Promise<HostStart> {
    return this.host(name).ask({
      run: 'start',
      settings: { ...(this.#settings.get(name) as HostSettings), ...settings },
    })
  }

  async startAll(): Promise<void> {
    await Promise.all([...this.#hosts.keys()].map((name) => this.start(name)))
  }

  /** A new process in place of one that ended. */
  async restart(name: string, settings: Partial<HostSettings> = {}): Promise<void> {
    this.#hosts.set(name, this.#spawn(name))
    await this.start(name, settings)
  }

  /** Starts a host with the key and the peers of another, as if the disk had been copied. */
  async startAs(name: string, other: string): Promise<void> {
    const { directory, privateKeyPem } = this.#settings.get(other) as HostSettings
    await this.start(name, { directory, privateKeyPem })
  }

  /** Has lies told on a cable of a host, by `liar.ts`. */
  lie(
    name: string,
    interfaceName: string,
    { port, peer, strangers }: { readonly port: number; readonly peer: string; readonly strangers: number },
  ): ChildProcess {
    const file = fileURLToPath(new URL('./liar.ts', import.meta.url))
    const args = [interfaceName, String(port), this.ids[peer] as string, String(strangers)]
    return this.network.spawn(name, process.execPath, ['--conditions=@egpu/source', '--import=tsx', file, ...args])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.network.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  #spawn(name: string): MeshHost {
    const file = fileURLToPath(new URL('./mesh-host.ts', import.meta.url))
    return new MeshHost(
      name,
      this.network.spawn(name, process.execPath, ['--conditions=@egpu/source', '--import=tsx', file]),
    )
  }
}

function remoteOf([interfaceName, remote]: [string, Partial<RemoteHost>], index: number): RemoteHost {
  return {
    route: [index + 1],
    uuid: 'uuid-other',
    name: 'other',
    receive: [2, 20],
    transmit: [2, 20],
    service: { e2e: true },
    interfaceName,
    ...remote,
  }
}

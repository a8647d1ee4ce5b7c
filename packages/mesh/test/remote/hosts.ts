import { EGpuManager, systemClock } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import type { SimDriver } from '@egpu/driver-sim'
import { memoryStore } from '@egpu/migrator'
import type { CheckpointStore } from '@egpu/migrator'
import type { PeerConnections } from '../../src/control/peer-connection.ts'
import type { CableLink } from '../../src/links/cable-link.ts'
import type { Coordinator } from '../../src/ownership/coordinator.ts'
import { embeddedCoordinator } from '../../src/ownership/embedded-coordinator.ts'
import { RemoteMigrator } from '../../src/remote/remote-migrator.ts'
import { pair } from '../helpers/planes.ts'
import { Tally } from './tally.ts'
import type { TallyOptions } from './tally.ts'

export interface Host extends AsyncDisposable {
  readonly peers: PeerConnections
  readonly driver: SimDriver
  readonly manager: EGpuManager
  readonly store: CheckpointStore
  readonly coordinator: Coordinator
  readonly remote: RemoteMigrator
}

export interface HostOptions {
  readonly memoryBytes?: number
  readonly tally?: TallyOptions
  readonly store?: CheckpointStore
  /** Makes the one of the host with this id. */
  readonly coordinator?: (self: string) => Coordinator
  readonly checkpointIntervalMs?: number
  readonly encrypted?: boolean
}

/** A host with one simulated eGPU and nothing else to run on. */
export async function host(peers: PeerConnections, options: HostOptions = {}): Promise<Host> {
  const { memoryBytes = 2 ** 30, tally = {}, store = memoryStore(), checkpointIntervalMs = 300, encrypted } = options
  const driver = simDriver({
    clock: systemClock,
    enclosures: [{ id: 'box', name: 'box', plugged: true, gpus: [{ id: 'gpu', name: 'GPU', memoryBytes }] }],
  })
  const manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring()
  const coordinator = options.coordinator?.(peers.nodeId) ?? (await embeddedCoordinator({ peers }))
  const remote = await RemoteMigrator.open({
    peers,
    manager,
    coordinator,
    store,
    kinds: { tally: (id) => new Tally(id, tally) },
    migration: { cpu: false, checkpointIntervalMs },
    encrypted,
  })
  return {
    peers,
    driver,
    manager,
    store,
    coordinator,
    remote,
    async [Symbol.asyncDispose]() {
      await remote.close()
      await coordinator.close()
      await manager.close()
    },
  }
}

/** Without UUIDs, so that each pair of addresses is a cable of its own. */
const cable: CableLink = {
  key: 'cable',
  port: 'port',
  localUuid: undefined,
  remoteUuid: undefined,
  remoteName: undefined,
  hubs: undefined,
  interfaceName: 'lo',
  mtu: undefined,
  sticker: undefined,
  trained: { receive: undefined, transmit: undefined },
  networkService: undefined,
}

/** Two paired hosts with a cable over loopback; `dial` plugs another in, which ends at a loopback address of its own. */
export async function twoHosts(
  ofA: HostOptions = {},
  ofB: HostOptions = {},
): Promise<{ readonly a: Host; readonly b: Host; dial(host: string): Promise<void>; cut(): void } & AsyncDisposable> {
  const planes = await pair({ cableOf: () => cable }, { cableOf: () => cable })
  const a = await host(planes.a.plane, ofA)
  const b = await host(planes.b.plane, ofB)
  const dial = async (host: string): Promise<void> => {
    const count = planes.b.plane.connections().length + 1
    await planes.a.plane.dial({ host, port: planes.b.port })
    while (planes.b.plane.connections().length < count) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await dial('127.0.0.1')
  return {
    a,
    b,
    dial,
    cut: () => void planes.a.plane.close(),
    async [Symbol.asyncDispose]() {
      await a[Symbol.asyncDispose]()
      await b[Symbol.asyncDispose]()
      await planes[Symbol.asyncDispose]()
    },
  }
}

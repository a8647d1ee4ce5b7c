/**
 * One host of a test network: a mesh in a process of its own, inside a network namespace. Takes commands over IPC and
 * reports events; `mesh-network.ts` starts it.
 */
import { ThunderboltMesh } from '../../src/thunderbolt-mesh.ts'
import { identityFromPem } from '../../src/identity/identity.ts'
import { linuxInventory } from '../../src/links/linux.ts'
import { linuxHostNetwork } from '../../src/doctor/host-network.ts'

export interface HostSettings {
  readonly name: string
  readonly directory: string
  readonly sysfs: string
  readonly hostTag: string
  readonly privateKeyPem?: string | undefined
  readonly lan?: boolean | undefined
  readonly visitor?: boolean | undefined
  readonly staticPeers?: readonly string[] | undefined
  readonly settleMs?: number | undefined
  readonly probeBytes?: number | undefined
}

export type HostCommand =
  | { readonly id: number; readonly run: 'start'; readonly settings: HostSettings }
  | { readonly id: number; readonly run: 'read' }
  | { readonly id: number; readonly run: 'best'; readonly for: 'latency' | 'bandwidth' | 'memory' }
  | { readonly id: number; readonly run: 'measure'; readonly linkId: string; readonly bytes?: number }
  | { readonly id: number; readonly run: 'offer'; readonly memoryBytes: number }
  | { readonly id: number; readonly run: 'block'; readonly ms: number }
  | { readonly id: number; readonly run: 'stop' }

let mesh: ThunderboltMesh | undefined

async function obey(command: HostCommand): Promise<unknown> {
  if (command.run === 'start') {
    const { sysfs, privateKeyPem, ...settings } = command.settings
    mesh = await ThunderboltMesh.discover({
      ...settings,
      identity: privateKeyPem === undefined ? undefined : identityFromPem(privateKeyPem),
      inventory: () => linuxInventory(sysfs),
      hostNetwork: () => linuxHostNetwork(sysfs),
    })
    for (const type of ['peer-connected', 'peer-lost', 'link-up', 'link-down', 'refused', 'peer-changed'] as const)
      mesh.on(type, (event) => process.send?.({ event: { ...event, at: Date.now() } }))
    return { nodeId: mesh.nodeId, port: mesh.port, at: Date.now() }
  }
  if (mesh === undefined) throw new Error('the mesh was not started')
  if (command.run === 'read')
    return {
      peers: mesh.peers,
      neighbours: mesh.neighbours,
      findings: mesh.findings,
      activePeerCount: mesh.activePeerCount,
      totalBandwidthGbps: mesh.totalBandwidthGbps,
    }
  if (command.run === 'best') return mesh.bestPeer({ for: command.for })
  if (command.run === 'measure') return mesh.measure(command.linkId, { bytes: command.bytes })
  if (command.run === 'offer') {
    mesh.offer([
      { id: 'gpu', name: 'a GPU', kind: 'gpu', runtime: 'cuda', removable: true, memoryBytes: command.memoryBytes },
    ])
    return true
  }
  if (command.run === 'block') {
    const until = performance.now() + command.ms
    while (performance.now() < until);
    return true
  }
  await mesh.close()
  mesh = undefined
  return true
}

process.on('message', (command: HostCommand) => {
  obey(command).then(
    (answer) => process.connected && process.send?.({ id: command.id, answer }),
    (error: Error) => process.connected && process.send?.({ id: command.id, error: error.message }),
  )
})
process.send?.({ ready: true })

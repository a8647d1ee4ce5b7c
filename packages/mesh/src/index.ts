export type { ChunkRef } from './bulk/chunk.ts'
export { describeFile } from './bulk/describe.ts'
export type { DescribeOptions } from './bulk/describe.ts'
export type { BulkLink } from './bulk/lane.ts'
export { encodeManifest, manifestRef } from './bulk/manifest.ts'
export type { BulkManifest } from './bulk/manifest.ts'
export { pullFile } from './bulk/pull-file.ts'
export type { PulledFile, PullFileOptions } from './bulk/pull-file.ts'
export type { PullOptions, PullReport, PullSource } from './bulk/pull.ts'
export { BulkServer } from './bulk/server.ts'
export type { BulkAddress, BulkOffer, BulkServerOptions } from './bulk/server.ts'
export { fileSource, joinedSource, memorySource } from './bulk/source.ts'
export type { ChunkSource } from './bulk/source.ts'
export type {
  LinkRoute,
  PeerConnection,
  PeerConnectionEnd,
  PeerConnections,
  RequestContext,
  RequestHandler,
} from './control/peer-connection.ts'
export type { Refusal } from './control/control-plane.ts'
export { digitsOf as pairingDigits, newPairingCode } from './control/pairing.ts'
export type { PairingWindow } from './control/pairing.ts'
export { linuxHostNetwork } from './doctor/host-network.ts'
export type { HostNetwork } from './doctor/host-network.ts'
export type { MeshEvent, MeshEventType } from './events.ts'
export { receiveFiles, sendFile } from './file-transfer.ts'
export type { ReceivedFile } from './file-transfer.ts'
export { temporaryIdentity } from './identity/identity.ts'
export type { MeshIdentity } from './identity/identity.ts'
export { defaultMeshDirectory, loadIdentity, loadPeers } from './identity/mesh-directory.ts'
export type { PairedPeer } from './identity/mesh-directory.ts'
export type { CableInventory, CableLink } from './links/cable-link.ts'
export { linuxInventory } from './links/linux.ts'
export { macosInventory } from './links/macos.ts'
export type { MacosFacts } from './links/macos.ts'
export type { MeshOptions } from './mesh-options.ts'
export type {
  AcquireOptions,
  Coordinator,
  Ownership,
  OwnershipState,
  Promotion,
  Tenure,
} from './ownership/coordinator.ts'
export { embeddedCoordinator } from './ownership/embedded-coordinator.ts'
export type { EmbeddedCoordinatorOptions } from './ownership/embedded-coordinator.ts'
export type { EtcdOptions } from './ownership/etcd-client.ts'
export { etcdCoordinator } from './ownership/etcd-coordinator.ts'
export type { EtcdCoordinatorOptions } from './ownership/etcd-coordinator.ts'
export { fencedStore } from './ownership/fenced-store.ts'
export type { Fence } from './ownership/fenced-store.ts'
export { Holding } from './ownership/holding.ts'
export { TokenBook } from './ownership/token-book.ts'
export type { BestPeer, LinkMeasurement, MeshLink, MeshPeer, Neighbour, PeerPurpose } from './peer.ts'
export { etcdRegistry } from './registry/etcd-registry.ts'
export type { HostRegistry, RegisteredHost } from './registry/host-registry.ts'
export { placement } from './registry/placement.ts'
export { RemoteMigrator } from './remote/remote-migrator.ts'
export type { RemoteMigratorOptions } from './remote/remote-migrator.ts'
export type { Handover, RemoteRun, RunEnd } from './remote/remote-run.ts'
export { ThunderboltMesh } from './thunderbolt-mesh.ts'

export type {
  LinkRoute,
  PeerConnection,
  PeerConnectionEnd,
  PeerConnections,
  RequestContext,
  RequestHandler,
} from './control/peer-connection.ts'
export type { Refusal } from './control/control-plane.ts'
export { newPairingCode } from './control/pairing.ts'
export type { PairingWindow } from './control/pairing.ts'
export { linuxHostNetwork } from './doctor/host-network.ts'
export type { HostNetwork } from './doctor/host-network.ts'
export type { MeshEvent, MeshEventType } from './events.ts'
export { temporaryIdentity } from './identity/identity.ts'
export type { MeshIdentity } from './identity/identity.ts'
export { defaultMeshDirectory, loadIdentity, loadPeers } from './identity/mesh-directory.ts'
export type { PairedPeer } from './identity/mesh-directory.ts'
export type { CableInventory, CableLink } from './links/cable-link.ts'
export { linuxInventory } from './links/linux.ts'
export { macosInventory } from './links/macos.ts'
export type { MacosFacts } from './links/macos.ts'
export type { MeshOptions } from './mesh-options.ts'
export type { BestPeer, LinkMeasurement, MeshLink, MeshPeer, Neighbour, PeerPurpose } from './peer.ts'
export { ThunderboltMesh } from './thunderbolt-mesh.ts'

export type {
  LinkRoute,
  PeerConnection,
  PeerConnectionEnd,
  PeerConnections,
  RequestContext,
  RequestHandler,
} from './control/peer-connection.ts'

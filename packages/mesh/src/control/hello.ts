import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { isTag } from '../identity/host-tag.ts'
import { asCount, asShape, asText } from '../shape.ts'
import { plainText } from '../text.ts'

/** Versions of the protocol this package speaks, lowest and highest. */
export const protocolVersions = { lowest: 1, highest: 1 } as const

/** Where a connection enters a host: lets both ends name the cable alike. */
export interface LinkEnd {
  readonly uuid: string | undefined
  readonly port: string | undefined
  readonly interfaceName: string | undefined
  readonly mtu: number | undefined
}

/** The first message each way, inside TLS, after each side has checked the other's key. */
export interface Hello {
  readonly versions: { readonly lowest: number; readonly highest: number }
  /** This run of the process, 16 hex digits. */
  readonly instance: string
  /** This running machine, 16 hex digits: differs between two that share a key. */
  readonly hostTag: string
  readonly name: string
  /** A visitor asks and leaves; it is no member of the mesh. */
  readonly visitor: boolean
  /** Where UDP heartbeats go. */
  readonly heartbeatPort: number | undefined
  readonly end: LinkEnd
}

/** `binding` ties a hello to its TLS connection: replayed on another it is worth nothing. */
export function helloMessage(hello: Hello, binding: string): object {
  return { t: 'hello', binding, ...hello }
}

/** Throws `EGPU_MALFORMED_DATA` for what is no hello, `EGPU_PEER_NOT_TRUSTED` for one that was not made for this connection. */
export function readHello(message: unknown, binding: string): Hello {
  const shape = asShape(message)
  const versions = asShape(shape?.['versions'])
  const end = asShape(shape?.['end'])
  const lowest = asCount(versions?.['lowest'])
  const highest = asCount(versions?.['highest'])
  const instance = asTag(shape?.['instance'])
  const tag = asTag(shape?.['hostTag'])
  const name = asText(shape?.['name'])
  if (
    shape?.['t'] !== 'hello' ||
    end === undefined ||
    lowest === undefined ||
    highest === undefined ||
    instance === undefined ||
    tag === undefined ||
    name === undefined
  )
    throw new EGpuError(EGpuErrorCode.MalformedData, 'the other side did not begin with a hello')
  if (shape['binding'] !== binding)
    throw new EGpuError(
      EGpuErrorCode.PeerNotTrusted,
      'the hello was made for another connection: somebody replays what they once heard',
    )
  if (highest < protocolVersions.lowest || lowest > protocolVersions.highest)
    throw new EGpuError(
      EGpuErrorCode.PeerNotTrusted,
      `the other host speaks mesh protocol ${lowest} to ${highest}, this one ` +
        `${protocolVersions.lowest} to ${protocolVersions.highest}; upgrade the older one`,
    )
  return {
    versions: { lowest, highest },
    instance,
    hostTag: tag,
    name: plainText(name),
    visitor: shape['visitor'] === true,
    heartbeatPort: asCount(shape['heartbeatPort'], 65_535, 1),
    end: {
      uuid: asPlain(end['uuid']),
      port: asPlain(end['port']),
      interfaceName: asPlain(end['interfaceName']),
      mtu: asCount(end['mtu'], 1_000_000, 1),
    },
  }
}

function asPlain(value: unknown): string | undefined {
  const text = asText(value)
  return text === undefined ? undefined : plainText(text)
}

function asTag(value: unknown): string | undefined {
  return typeof value === 'string' && isTag(value) ? value : undefined
}

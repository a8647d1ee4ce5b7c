import { Network } from '../../packages/mesh/test/helpers/namespaces.ts'

/** A link from host `a` to host `b`: its interface at both ends, the address of `b` on it and that of `a`. */
export interface HostLink {
  readonly name: string
  readonly host: string
  readonly localAddress: string
}

export const hostLinks: readonly [HostLink, HostLink] = [
  { name: 'thunderbolt0', host: '10.78.0.2', localAddress: '10.78.0.1' },
  { name: 'thunderbolt1', host: '10.78.1.2', localAddress: '10.78.1.1' },
]

/** Two hosts, `a` and `b`, joined by these links; what one of them sends over each may be limited. */
export async function linkedHosts(
  links: readonly HostLink[],
  limit?: { readonly from: 'a' | 'b'; readonly gbps: number },
): Promise<Network> {
  const network = await Network.create({ hosts: ['a', 'b'] })
  for (const { name, host, localAddress } of links) {
    await network.join({ host: 'a', interfaceName: name }, { host: 'b', interfaceName: name })
    await network.ip('a', 'addr', 'add', `${localAddress}/24`, 'dev', name)
    await network.ip('b', 'addr', 'add', `${host}/24`, 'dev', name)
    if (limit !== undefined) await network.limit({ host: limit.from, interfaceName: name }, limit.gbps)
  }
  return network
}

/**
 * Router names are `<domain>-<route>` in hexadecimal. A route has one byte per hop, the lowest byte being the port of
 * the host: `0-301` leaves the host by port 1 and the first box by port 3. (drivers/thunderbolt: `tb_route`.)
 */

/** Port numbers from the host on; empty for the host router. */
export function hopsOf(routerName: string): readonly number[] {
  const hops: number[] = []
  for (let route = routeOf(routerName); route !== 0n; route >>= 8n) hops.push(Number(route & 0xffn))
  return hops
}

/** The router one hop closer to the host; `undefined` for the host router. */
export function parentNameOf(routerName: string): string | undefined {
  const hops = hopsOf(routerName)
  if (hops.length === 0) return undefined
  let route = 0n
  for (const port of hops.slice(0, -1).reverse()) route = (route << 8n) | BigInt(port)
  return `${domainPartOf(routerName)}-${route.toString(16)}`
}

/**
 * The router at the far end of a PCI Express tunnel, out of `TUNNEL_DETAILS` of an event of the domain. `0:5 <-> 301:9
 * (PCI)` names route and adapter at both ends. Such a tunnel joins a box with the router before it (`tb_tunnel_alloc_pci`
 * in drivers/thunderbolt/tunnel.c), so what is nearer to the host is not the one meant.
 */
export function tunnelledRouter(domainName: string, details: string | undefined): string | undefined {
  const domain = /^domain(\d+)$/.exec(domainName)?.[1]
  const ends = /^([\da-f]{1,16}):\d+ <-> ([\da-f]{1,16}):\d+ \(PCI\)$/.exec(details ?? '')?.slice(1)
  if (domain === undefined || ends === undefined) return undefined
  const [near, far] = ends
    .map((route) => `${domain}-${route}`)
    .sort((one, other) => hopsOf(one).length - hopsOf(other).length) as [string, string]
  return hopsOf(near).length === hopsOf(far).length ? undefined : far
}

function routeOf(routerName: string): bigint {
  return BigInt(`0x${routerName.slice(routerName.indexOf('-') + 1)}`)
}

function domainPartOf(routerName: string): string {
  return routerName.slice(0, routerName.indexOf('-'))
}

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

function routeOf(routerName: string): bigint {
  return BigInt(`0x${routerName.slice(routerName.indexOf('-') + 1)}`)
}

function domainPartOf(routerName: string): string {
  return routerName.slice(0, routerName.indexOf('-'))
}

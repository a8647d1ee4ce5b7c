/** What only somebody who watched knows. Keys are PCI addresses of GPUs, values are router names (`0-1`). */
export interface JoinHints {
  /** The router whose PCI Express tunnel the kernel reported (`TUNNEL_EVENT`, since Linux 6.16) just before the GPU. */
  readonly tunnelEvents?: ReadonlyMap<string, string> | undefined
  /** The router that appeared, or was authorized, last before the GPU. */
  readonly appearedAfter?: ReadonlyMap<string, string> | undefined
  /** The router it was found in before. Still holds when the router is gone and the GPU is not. */
  readonly remembered?: ReadonlyMap<string, RememberedRouter> | undefined
  /** The key it was listed under before. */
  readonly keys?: ReadonlyMap<string, string> | undefined
}

export interface RememberedRouter {
  readonly uniqueId: string
  readonly port: string
  readonly slot?: number | undefined
}

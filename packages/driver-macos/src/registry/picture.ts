import type { Registry, RegistryEntry } from './source.ts'
import type { RegistryValue } from './value.ts'

/** What an entry means to the detector. */
export type Role =
  | 'platform'
  | 'pci'
  | 'bridge'
  | 'switch'
  | 'port'
  | 'controller'
  | 'accelerator'
  | 'usb'
  | 'user-service'
  | 'framebuffer'
  | 'display'
  | 'media'
  | 'local-node'
  | 'peer-link'
  | 'ip-port'
  | 'network-interface'

/** An entry as it was, with the properties its roles ask for. */
export interface RegistryNode {
  readonly id: bigint
  readonly className: string
  readonly name: string
  readonly location: string | undefined
  readonly roles: ReadonlySet<Role>
  readonly properties: ReadonlyMap<string, RegistryValue>
  readonly parent: RegistryNode | undefined
  readonly children: readonly RegistryNode[]
}

/** The part of a registry the detector looks at, read at one moment, sorted by entry id. */
export interface RegistryPicture {
  readonly nodes: ReadonlyMap<bigint, RegistryNode>
  withRole(role: Role): readonly RegistryNode[]
}

/** One kind of entry to look for. */
export interface RoleRequest {
  readonly role: Role
  /** Base classes; the kernel finds what derives from them. */
  readonly classes: readonly string[]
  readonly keys: readonly string[]
  /** Which roles the entries below have a say in; they are looked for up to eight levels down. */
  readonly below?:
    | { readonly when: (node: RegistryNode) => boolean; readonly roles: readonly RoleRequest[] }
    | undefined
}

const maxLevelsBelow = 8

/** Reads every entry of the given kinds, what is above them and, where asked, what is below. */
export function takePicture(registry: Registry, requests: readonly RoleRequest[]): RegistryPicture {
  const painter = new Painter(registry.rootId)
  for (const request of requests) {
    for (const className of request.classes) {
      for (const entry of registry.matching(className)) {
        try {
          painter.add(entry, request)
        } finally {
          entry[Symbol.dispose]()
        }
      }
    }
  }
  return painter.finish()
}

interface OpenNode extends RegistryNode {
  readonly roles: Set<Role>
  readonly properties: Map<string, RegistryValue>
  parent: RegistryNode | undefined
  readonly children: RegistryNode[]
}

class Painter {
  readonly #nodes = new Map<bigint, OpenNode>()
  readonly #torn = new Set<RegistryNode>()
  readonly #rootId: bigint | undefined

  constructor(rootId: bigint | undefined) {
    this.#rootId = rootId
  }

  add(entry: RegistryEntry, request: RoleRequest): void {
    const node = this.#node(entry)
    if (node === undefined) return
    readRole(node, entry, request)
    if (request.below?.when(node) === true) this.#readBelow(node, entry, request.below.roles, maxLevelsBelow)
    // Last, for it tells whether the entry was there all the while.
    this.#readAbove(node, entry)
  }

  finish(): RegistryPicture {
    const whole = [...this.#nodes].filter(([, node]) => this.#isWhole(node))
    const nodes = new Map(whole.sort(([a], [b]) => (a < b ? -1 : 1)))
    for (const node of nodes.values())
      if (node.parent !== undefined) (node.parent.children as RegistryNode[]).push(node)
    return { nodes, withRole: (role) => [...nodes.values()].filter((node) => node.roles.has(role)) }
  }

  /** The node of an entry; `undefined` when the entry is gone. */
  #node(entry: RegistryEntry): OpenNode | undefined {
    const id = entry.id
    if (id === undefined) return undefined
    let node = this.#nodes.get(id)
    if (node === undefined) {
      const { className, name, location } = entry
      node = { id, className, name, location, roles: new Set(), properties: new Map(), parent: undefined, children: [] }
      this.#nodes.set(id, node)
    }
    return node
  }

  /** An entry that was taken out of the registry meanwhile says nothing reliable, nor does anything below it. */
  #isWhole(node: OpenNode): boolean {
    if (this.#rootId === undefined) return true
    const chain = [...upward(node)]
    return chain.at(-1)?.id === this.#rootId && !chain.some((one) => this.#torn.has(one))
  }

  /** Up to the root, or to where an earlier entry has been already. */
  #readAbove(node: OpenNode, entry: RegistryEntry): void {
    let below = node
    let parent = entry.parent()
    if (parent === undefined && node.id !== this.#rootId) this.#torn.add(node)
    while (parent !== undefined) {
      const above = parent
      try {
        const next = this.#node(above)
        if (next === undefined) return
        below.parent = next
        parent = next.parent === undefined ? above.parent() : undefined
        below = next
      } finally {
        above[Symbol.dispose]()
      }
    }
  }

  #readBelow(node: OpenNode, entry: RegistryEntry, requests: readonly RoleRequest[], levels: number): void {
    if (levels === 0) return
    for (const child of entry.children()) {
      try {
        const below = this.#node(child)
        if (below === undefined || below === node) continue
        below.parent ??= node
        for (const request of requests) {
          if (request.classes.some((className) => child.conformsTo(className))) readRole(below, child, request)
        }
        this.#readBelow(below, child, requests, levels - 1)
      } finally {
        child[Symbol.dispose]()
      }
    }
  }
}

function readRole(node: OpenNode, entry: RegistryEntry, request: RoleRequest): void {
  if (node.roles.has(request.role)) return
  node.roles.add(request.role)
  for (const key of request.keys) {
    const value = entry.property(key)
    if (value !== undefined) node.properties.set(key, value)
  }
}

/** The entries above one, nearest first. */
export function* above(node: RegistryNode): Generator<RegistryNode> {
  for (let parent = node.parent; parent !== undefined; parent = parent.parent) yield parent
}

/** An entry and those above it, nearest first. */
export function* upward(node: RegistryNode): Generator<RegistryNode> {
  yield node
  yield* above(node)
}

/** The entries below one. */
export function* below(node: RegistryNode): Generator<RegistryNode> {
  for (const child of node.children) {
    yield child
    yield* below(child)
  }
}

/** `IOService:/AppleARMPE/arm-io@10F00000/…`, as the kernel writes it: from below the platform's own entry. Names and locations, so it outlives a boot. */
export function pathOf(node: RegistryNode): string {
  const chain = [...upward(node)].reverse()
  const platform = chain.findIndex((one) => one.roles.has('platform'))
  const listed = chain.slice(Math.max(platform, 0) + 1)
  return `IOService:/${listed.map(segmentOf).join('/')}`
}

/** `pci-bridge@0`. */
export function segmentOf(node: RegistryNode): string {
  return node.location === undefined ? node.name : `${node.name}@${node.location}`
}

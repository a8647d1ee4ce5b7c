import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { MeshEvent, MeshOptions, ThunderboltMesh } from '@egpu/mesh'
import { plain } from '../output/text.ts'
import type { MeshView } from './protocol.ts'

/** Two hosts may be paired while the dashboard runs. */
const tryEveryMs = 5_000

/**
 * The mesh as a visitor sees it, who asks everything and disturbs nobody. It is joined once this host is paired with
 * another: a host that is not has no mesh, and gets no key for having opened a page.
 */
export class MeshPeers implements AsyncDisposable {
  readonly #options: MeshOptions
  readonly #stop: AbortController = new AbortController()
  readonly #listeners = new Set<(event: MeshEvent) => void>()
  #mesh: ThunderboltMesh | undefined
  #joining: Promise<void> | undefined
  #telling: Promise<void> | undefined
  #triedAt = Number.NEGATIVE_INFINITY
  #problem: string | undefined

  constructor(options: MeshOptions = {}) {
    this.#options = options
  }

  /** `undefined` while there is no mesh to speak of. */
  now(): MeshView | undefined {
    const isDue = performance.now() - this.#triedAt >= tryEveryMs
    if (this.#mesh === undefined && isDue && !this.#stop.signal.aborted) this.#joining ??= this.#join()
    if (this.#mesh !== undefined) {
      const { peers, neighbours, findings } = this.#mesh
      return { peers, strangers: neighbours.length, findings, problem: undefined }
    }
    return this.#problem === undefined ? undefined : { peers: [], strangers: 0, findings: [], problem: this.#problem }
  }

  /** Hears of everything in the mesh, once it is joined, until the returned function is called. */
  listen(listener: (event: MeshEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await this.#joining
    await this.#mesh?.close()
    await this.#telling
  }

  async #join(): Promise<void> {
    try {
      const { defaultMeshDirectory, loadPeers, ThunderboltMesh: mesh } = await import('@egpu/mesh')
      const directory = this.#options.directory ?? defaultMeshDirectory()
      if (!existsSync(join(directory, 'peers.json')) || loadPeers(directory).length === 0) return
      this.#mesh = await mesh.discover({ settleMs: 0, ...this.#options, visitor: true, signal: this.#stop.signal })
      this.#telling = this.#tell(this.#mesh)
      this.#problem = undefined
    } catch (error) {
      this.#problem = plain(error instanceof Error ? error.message : String(error))
    } finally {
      this.#triedAt = performance.now()
      this.#joining = undefined
    }
  }

  /** Who is there already is told of first. Ends when the mesh is closed. */
  async #tell(mesh: ThunderboltMesh): Promise<void> {
    const events = mesh.events()
    for (const peer of mesh.peers) {
      this.#told({ type: 'peer-connected', peer })
      for (const link of peer.links) this.#told({ type: 'link-up', peer, link })
    }
    for await (const event of events) this.#told(event)
  }

  #told(event: MeshEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

import type { AbortOptions, Clock } from '@egpu/core'
import { detect } from './detect/detect.ts'
import type { Detection } from './detect/detect.ts'
import { detectorRoles } from './detect/roles.ts'
import { takePicture } from './registry/picture.ts'
import type { RegistrySource } from './registry/source.ts'

/** Asking for the system extensions starts a process; a person takes longer than this to allow one. */
const extensionsGoodForMs = 30_000

/** Looks at the registry and decides; asks for the system extensions only when an external GPU makes them matter. */
export class Looker {
  readonly #source: RegistrySource
  readonly #clock: Clock
  #extensions: { readonly text: string | undefined; readonly atMs: number } | undefined

  constructor(source: RegistrySource, clock: Clock) {
    this.#source = source
    this.#clock = clock
  }

  async look(options: AbortOptions = {}): Promise<Detection> {
    options.signal?.throwIfAborted()
    const registry = await this.#source.open(options)
    const picture = takePicture(registry, detectorRoles)
    const thermalLevel = await this.#source.thermalLevel?.()
    const detection = detect(picture, { thermalLevel })
    if (!needsExtensions(detection)) return detection
    return detect(picture, { thermalLevel, systemExtensions: await this.#systemExtensions(options) })
  }

  async #systemExtensions(options: AbortOptions): Promise<string | undefined> {
    const now = this.#clock.now()
    if (this.#extensions === undefined || now - this.#extensions.atMs > extensionsGoodForMs) {
      this.#extensions = { text: await this.#source.systemExtensions?.(options), atMs: now }
    }
    return this.#extensions.text
  }
}

/** Metal needs none. */
function needsExtensions({ snapshot }: Detection): boolean {
  return snapshot.devices.some(
    ({ verdict, kernelDriver }) => verdict?.conclusion === 'external' && kernelDriver?.startsWith('metal:') !== true,
  )
}

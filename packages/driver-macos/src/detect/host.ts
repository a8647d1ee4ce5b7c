import { ThunderboltSpeed } from '@egpu/core'
import { upward } from '../registry/picture.ts'
import type { RegistryNode, RegistryPicture } from '../registry/picture.ts'
import { asText } from '../registry/value.ts'

/** What the Mac is, as far as an external GPU cares. */
export interface Host {
  readonly processor?: 'apple' | 'intel' | undefined
  /** `Mac16,7`. */
  readonly model?: string | undefined
}

export function describeHost(picture: RegistryPicture): Host {
  const [platform] = picture.withRole('platform')
  return { processor: processorOf(picture), model: asText(platform?.properties.get('model')) }
}

function processorOf(picture: RegistryPicture): Host['processor'] {
  for (const { className, name } of picture.nodes.values()) {
    if (className === 'AppleARMPE' || name === 'AppleARMPE' || name === 'arm-io') return 'apple'
    if (className === 'AppleACPIPlatformExpert' || name === 'AppleACPIPlatformExpert') return 'intel'
  }
  const types = new Set(picture.withRole('controller').map(hostInterfaceType))
  if ([5, 7].some((type) => types.has(type))) return 'apple'
  return [1, 2, 3, 4].some((type) => types.has(type)) ? 'intel' : undefined
}

/**
 * The number in `AppleThunderboltNHIType5` above (or `IOThunderboltControllerType5` at) an entry. It names the host's
 * own controller, never what is plugged into it.
 */
export function hostInterfaceType(node: RegistryNode): number | undefined {
  for (const { className } of upward(node)) {
    const match = /^(?:AppleThunderboltNHI|IOThunderboltController)Type(\d{1,3})$/.exec(className)
    if (match !== null) return Number(match[1])
  }
  return undefined
}

/**
 * What each host controller can do. 1 to 3 as Apple's own scripts and the eGPU tools of Intel Macs have it, 4 is Ice
 * Lake, 5 every Apple silicon with 40 Gb/s ports (USB4 version 1, which Thunderbolt 4 is), 7 those with 80 Gb/s. 6 was
 * never seen; it and later ones stay unknown.
 */
const generations: ReadonlyMap<number | undefined, ThunderboltSpeed> = new Map([
  [1, ThunderboltSpeed.TB1],
  [2, ThunderboltSpeed.TB2],
  [3, ThunderboltSpeed.TB3],
  [4, ThunderboltSpeed.TB3],
  [5, ThunderboltSpeed.TB4],
  [7, ThunderboltSpeed.TB5],
])

export function hostGeneration(type: number | undefined): ThunderboltSpeed | undefined {
  return generations.get(type)
}

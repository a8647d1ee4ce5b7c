import type { AbortOptions } from '@egpu/core'
import { extensionFor, parseSystemExtensions } from '../detect/extensions.ts'
import { detectorRoles } from '../detect/roles.ts'
import { iokitSource } from '../iokit/source.ts'
import { formatPlist } from '../plist/format.ts'
import { extensionsKey } from '../plist/source.ts'
import { takePicture } from '../registry/picture.ts'
import type { RegistrySource } from '../registry/source.ts'
import { redactedTree } from './redact.ts'

export interface RecordMacOptions extends AbortOptions {
  /** `iokitSource()` unless given, and closed afterwards; a source that is given stays open. */
  readonly source?: RegistrySource | undefined
}

/**
 * Records what `macosDriver` would read of this Mac, to be sent to somebody who can explain it: a property list that
 * `plistSource` reads. It has the entries and properties the detector asks for and no others, no serial numbers, unique
 * ids, names of volumes and network addresses, and of USB devices only those that may be a GPU box. Rejects with
 * `EGPU_NATIVE_UNAVAILABLE` where the registry cannot be read, and with the abort reason.
 */
export async function recordMac(options: RecordMacOptions = {}): Promise<string> {
  const { signal } = options
  signal?.throwIfAborted()
  const source = options.source ?? iokitSource()
  try {
    const picture = takePicture(await source.open({ signal }), detectorRoles)
    const extensions = gpuExtensionsIn(await source.systemExtensions?.({ signal }))
    return formatPlist([...redactedTree(picture), ...(extensions === '' ? [] : [{ [extensionsKey]: extensions }])])
  } finally {
    if (options.source === undefined) await source[Symbol.asyncDispose]()
  }
}

/** What else somebody has installed is nobody's business. */
function gpuExtensionsIn(text: string | undefined): string {
  const concernsGpus = (line: string): boolean =>
    parseSystemExtensions(line).some(({ bundleId }) => extensionFor(bundleId) !== undefined)
  return (text ?? '').split('\n').filter(concernsGpus).join('\n')
}

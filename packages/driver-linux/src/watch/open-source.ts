import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import { kernelSource, udevSource } from './netlink-source.ts'
import { pollSource } from './poll-source.ts'
import { UeventSourceKind } from './source.ts'
import type { OpenUeventSource, SourceListener, UeventSource } from './source.ts'
import { udevadmSource } from './udevadm-source.ts'

/** A source by name, in the order it is tried. */
export interface SourceCandidate {
  readonly kind: UeventSourceKind
  readonly open: OpenUeventSource
}

/** Why a source is not the one in use. */
export interface SourceRefusal {
  readonly kind: UeventSourceKind
  readonly reason: string
}

export interface OpenedSource {
  readonly kind: UeventSourceKind
  readonly source: UeventSource
  readonly refusals: readonly SourceRefusal[]
}

/** Every source, best first. */
export function defaultSources(options: {
  readonly sysfsRoot: string
  readonly clock: Clock
}): readonly SourceCandidate[] {
  return [
    { kind: UeventSourceKind.Kernel, open: kernelSource },
    { kind: UeventSourceKind.Udev, open: udevSource },
    { kind: UeventSourceKind.Udevadm, open: udevadmSource() },
    { kind: UeventSourceKind.Poll, open: pollSource(options) },
  ]
}

/** Opens the first source that works and says why each one before it does not. */
export async function openFirstSource(
  candidates: readonly SourceCandidate[],
  listener: SourceListener,
  options: AbortOptions = {},
): Promise<OpenedSource> {
  const refusals: SourceRefusal[] = []
  for (const { kind, open } of candidates) {
    try {
      return { kind, source: await open(listener, options), refusals }
    } catch (error) {
      options.signal?.throwIfAborted()
      refusals.push({ kind, reason: error instanceof Error ? error.message : String(error) })
    }
  }
  const reasons = refusals.map(({ kind, reason }) => `\n  ${kind}: ${reason}`).join('')
  throw new EGpuError(EGpuErrorCode.NativeUnavailable, `no source of device events works here${reasons}`, {
    driver: 'linux',
  })
}

import type { AbortOptions } from '@egpu/core'
import type { Uevent } from './uevent.ts'

/**
 * Where news come from, best first: the kernel's own netlink group, udev's group (later, after its rules ran), a
 * `udevadm monitor` child, or looking every second whether anything changed.
 */
export const UeventSourceKind = {
  Kernel: 'kernel',
  Udev: 'udev',
  Udevadm: 'udevadm',
  Poll: 'poll',
  /** The caller's own, for a recorded machine. */
  Injected: 'injected',
} as const
export type UeventSourceKind = (typeof UeventSourceKind)[keyof typeof UeventSourceKind]

/** What a source tells its listener. */
export type SourceMessage =
  | { readonly type: 'uevent'; readonly event: Uevent }
  /** Messages were lost: everything has to be looked at again. */
  | { readonly type: 'overflow' }
  /** Something changed, and the source cannot tell what. */
  | { readonly type: 'changed' }
  /** It broke and says nothing any more. */
  | { readonly type: 'failed'; readonly reason: string }

export type SourceListener = (message: SourceMessage) => void

/** A running source. Closing twice is fine. */
export interface UeventSource extends AsyncDisposable {
  readonly kind: UeventSourceKind
  close(): Promise<void>
}

/** Starts a source: it resolves once nothing can be missed any more, and rejects with the reason why it cannot work. */
export type OpenUeventSource = (listener: SourceListener, options?: AbortOptions) => Promise<UeventSource>

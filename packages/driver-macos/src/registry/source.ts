import type { AbortOptions } from '@egpu/core'
import type { ProbeResult } from '@egpu/core/driver'
import type { RegistryValue } from './value.ts'

/**
 * One entry of the IORegistry. It may vanish between any two calls: then everything it says from there on is
 * `undefined` or empty, and nothing throws. Dispose it; entries it hands out are the caller's to dispose too.
 */
export interface RegistryEntry extends Disposable {
  /** Never reused until the next boot; `undefined` when the entry is gone already. */
  readonly id: bigint | undefined
  readonly className: string
  readonly name: string
  /** What comes after the `@` of its path; hex for PCI devices. */
  readonly location: string | undefined
  /** Whether it is of this class or of one derived from it. */
  conformsTo(className: string): boolean
  /** One property by name. Never the whole dictionary: reading that of a dying service can abort the process. */
  property(key: string): RegistryValue | undefined
  /** The one above it in the service plane. */
  parent(): RegistryEntry | undefined
  children(): readonly RegistryEntry[]
}

/** An open registry; good until its source is closed. */
export interface Registry {
  /**
   * The entry everything hangs from, for a registry that changes while it is read: an entry that does not lead up to
   * it is being torn down, and what was read of it may be half the truth. `undefined` for a dump.
   */
  readonly rootId: bigint | undefined
  /**
   * Every active entry of a class and of those derived from it, in no particular order. Rejects with
   * `EGPU_NATIVE_UNAVAILABLE` when the kernel refuses.
   */
  matching(className: string): readonly RegistryEntry[]
  entry(id: bigint): RegistryEntry | undefined
}

/** What came and went since the last look. Ids only: what has gone cannot be asked any more. */
export interface RegistryChange {
  readonly added: readonly bigint[]
  readonly removed: readonly bigint[]
  /** The kernel keeps 1024 changes and drops the rest: look at everything afresh. */
  readonly overflowed: boolean
}

/** How long to wait for a change. */
export interface WaitOptions {
  readonly signal: AbortSignal
  readonly timeoutMs: number
}

/** A subscription. It holds from the moment it exists, so list after you have it and nothing falls in between. */
export interface RegistryWatch extends AsyncDisposable {
  /**
   * Waits until something changed, at most `timeoutMs`, and returns all of it; an empty change means the time is up.
   * Rejects with the abort reason.
   */
  next(options: WaitOptions): Promise<RegistryChange>
}

/** Where a registry comes from: the running kernel, or a dump of one. */
export interface RegistrySource extends AsyncDisposable {
  readonly name: string
  /** Says why it cannot work here; never rejects because of the platform. */
  probe(options?: AbortOptions): Promise<ProbeResult>
  /**
   * Rejects with `EGPU_NATIVE_UNAVAILABLE` without IOKit, with `EGPU_MALFORMED_DATA` for a dump that cannot be read.
   */
  open(options?: AbortOptions): Promise<Registry>
  /** Absent when nothing ever changes here, or when the source cannot tell. */
  readonly watch?: ((classNames: readonly string[], signal: AbortSignal) => Promise<RegistryWatch>) | undefined
  /** What `systemextensionsctl list` prints, where it can be had. */
  readonly systemExtensions?: ((options: AbortOptions) => Promise<string | undefined>) | undefined
  /** The host's thermal warning level (`IOPM.h`), where it can be had. */
  readonly thermalLevel?: (() => Promise<number | undefined>) | undefined
}

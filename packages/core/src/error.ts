/**
 * Every code an `EGpuError` can carry. Codes are API: they do not change within a major version, messages may.
 * `docs/errors.md` says for each what happened and what to do.
 */
export const EGpuErrorCode = {
  /** No driver handed over can work on this machine. */
  DriverUnavailable: 'EGPU_DRIVER_UNAVAILABLE',
  /** A driver speaks a contract version this core does not accept. */
  DriverSpecVersion: 'EGPU_DRIVER_SPEC_VERSION',
  /** A driver broke the contract: it threw in `watch`, repeated a key, sent an event about a device it never listed. */
  DriverMisbehaved: 'EGPU_DRIVER_MISBEHAVED',
  /** The same driver object was handed to a second manager, or twice to one. */
  DriverInUse: 'EGPU_DRIVER_IN_USE',
  /** The driver does not declare the capability that was asked for. */
  NotSupported: 'EGPU_NOT_SUPPORTED',
  /** No device has this id. */
  DeviceNotFound: 'EGPU_DEVICE_NOT_FOUND',
  /** The device is gone, or stopped answering, while it was in use. */
  DeviceLost: 'EGPU_DEVICE_LOST',
  /** A handle or a result belongs to an earlier incarnation of the device. */
  StaleEpoch: 'EGPU_STALE_EPOCH',
  /** The registry refuses a state change that its transition table does not have. */
  IllegalTransition: 'EGPU_ILLEGAL_TRANSITION',
  /** Somebody still uses the device, so it was not removed. */
  DeviceBusy: 'EGPU_DEVICE_BUSY',
  /** The operating system refused; the message says which right is missing and how to get it. */
  PermissionDenied: 'EGPU_PERMISSION_DENIED',
  /** A native library, kernel interface or module is not there. */
  NativeUnavailable: 'EGPU_NATIVE_UNAVAILABLE',
  /** Something answered with data that cannot be understood. */
  MalformedData: 'EGPU_MALFORMED_DATA',
  /** It took longer than it was allowed to. */
  Timeout: 'EGPU_TIMEOUT',
  /** No target can take the workload; the message lists why each candidate was passed over. */
  NoTarget: 'EGPU_NO_TARGET',
  /** The target lacks memory, a limit or a feature that the workload needs. */
  TargetIncompatible: 'EGPU_TARGET_INCOMPATIBLE',
  /** A migration did not finish; `cause` holds the step's own error. */
  MigrationFailed: 'EGPU_MIGRATION_FAILED',
  /** There is no checkpoint to restore from. */
  CheckpointNotFound: 'EGPU_CHECKPOINT_NOT_FOUND',
  /** A checkpoint is torn, altered or of a format this version does not read. */
  CheckpointCorrupt: 'EGPU_CHECKPOINT_CORRUPT',
  /** A checkpoint could not be written; the previous one is intact. */
  CheckpointFailed: 'EGPU_CHECKPOINT_FAILED',
  /** A workload broke its contract: it threw, hung or lied about its size. */
  WorkloadFailed: 'EGPU_WORKLOAD_FAILED',
  /** No process has this pid any more, or another one has it by now. */
  ProcessNotFound: 'EGPU_PROCESS_NOT_FOUND',
  /** No connection to the peer is open, or it ended before the answer came. */
  PeerLost: 'EGPU_PEER_LOST',
  /** The peer, or this host, refuses to talk: not paired, wrong or expired key, other protocol version. */
  PeerNotTrusted: 'EGPU_PEER_NOT_TRUSTED',
  /** The peer answered that it will not or cannot do what was asked. */
  PeerRefused: 'EGPU_PEER_REFUSED',
  /** Another host owns it, or may: only the owner can do this. */
  NotOwner: 'EGPU_NOT_OWNER',
  /** Two hosts use the key of one: a folder or a disk image was copied. */
  IdentityCopied: 'EGPU_IDENTITY_COPIED',
  /** The object was closed and cannot be used any more. */
  Closed: 'EGPU_CLOSED',
} as const
export type EGpuErrorCode = (typeof EGpuErrorCode)[keyof typeof EGpuErrorCode]

export interface EGpuErrorOptions {
  readonly cause?: unknown
  /** Name of the driver that reported it. */
  readonly driver?: string | undefined
  readonly deviceId?: string | undefined
}

/** Marks errors of every installed copy of core; `instanceof` only knows its own copy. */
const brand: symbol = Symbol.for('@egpu/core/error')

/** The one error class of the SDK: branch on `code`, show `message` to people, log `cause`. */
export class EGpuError extends Error {
  override readonly name: string = 'EGpuError'
  readonly code: EGpuErrorCode
  readonly driver: string | undefined
  readonly deviceId: string | undefined

  constructor(code: EGpuErrorCode, message: string, options: EGpuErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.driver = options.driver
    this.deviceId = options.deviceId
    Object.defineProperty(this, brand, { value: true })
  }

  /** True for errors of any installed copy of `@egpu/core`, optionally only those with `code`. */
  static is(value: unknown, code?: EGpuErrorCode): value is EGpuError {
    if (typeof value !== 'object' || value === null || !(brand in value)) return false
    return code === undefined || (value as EGpuError).code === code
  }
}

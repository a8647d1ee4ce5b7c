/** Codes of what fails in the command line itself; the SDK's are `EGpuErrorCode`, the system's look like `ENOENT`. Stable. */
export const CommandErrorCode = {
  /** The command line was wrong. */
  Usage: 'EGPU_USAGE',
  /** A change to the system was ruled out, or one of its steps failed and those before it were taken back. */
  NotDone: 'EGPU_NOT_DONE',
  /** `demo`: the result is not the one of the undisturbed run. */
  ResultsDiffer: 'EGPU_RESULTS_DIFFER',
  /** Nobody expected it; a fault of ours. */
  Unexpected: 'EGPU_UNEXPECTED',
} as const
export type CommandErrorCode = (typeof CommandErrorCode)[keyof typeof CommandErrorCode]

/** A failure of the command line itself: the sentence is for people, the code for programs. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError'
  readonly code: CommandErrorCode | 'EADDRINUSE' | 'ENOENT'

  constructor(code: CommandError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

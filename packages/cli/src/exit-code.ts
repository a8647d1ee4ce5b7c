/** What the process ends with. Stable: scripts may rely on it. */
export const ExitCode = {
  Ok: 0,
  /** It was tried and did not work; stderr says why. */
  Failed: 1,
  /** The command line was wrong. */
  Usage: 2,
  /** `doctor` found something that needs attention. */
  Attention: 3,
  /** Its terminal was closed (SIGHUP). */
  HungUp: 129,
  /** Ended by Ctrl-C (SIGINT). */
  Interrupted: 130,
  /** Ended by SIGTERM. */
  Terminated: 143,
} as const

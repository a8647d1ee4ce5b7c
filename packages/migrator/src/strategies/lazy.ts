import type { MigrationPolicy } from '../strategy.ts'

/** Moves only once a device has failed; a warning makes it take a checkpoint. */
export const lazy: MigrationPolicy = {
  name: 'lazy',
  onWarning: () => 'checkpoint',
}

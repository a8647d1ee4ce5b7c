import type { MigrationPolicy } from '../strategy.ts'

/** Moves at the first sign of trouble. A link that got slower is no danger: it only makes a checkpoint worth having. */
export const eager: MigrationPolicy = {
  name: 'eager',
  onWarning: ({ kind }) => (kind === 'link-downgraded' ? 'checkpoint' : 'move'),
}

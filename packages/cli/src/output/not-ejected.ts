import type { DisconnectResult } from '@egpu/core'
import { plain } from './text.ts'

/** Who or what kept a GPU from being ejected, each once and safe for a terminal. Never empty. */
export function inTheWay({
  reason,
  holders,
  vetoes,
  refusals,
}: DisconnectResult & { readonly safeToUnplug: false }): readonly string[] {
  const each = [
    ...holders.map(({ pid, name, holds }) => `${name ?? 'a process'} (pid ${pid}) holds ${holds}`),
    ...vetoes.map(({ guest, reason: why }) => `${guest} stays: ${why}`),
    ...refusals,
  ]
  // A step that failed has its sentence in the reason alone.
  return (each.length === 0 ? [reason] : each).map(plain)
}

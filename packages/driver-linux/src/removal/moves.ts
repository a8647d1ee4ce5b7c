import type { PlanStep } from '@egpu/core'

/** One change to the machine. `command` of its step says the same to a person. */
export type Action =
  | { readonly kind: 'write'; readonly path: string; readonly value: string }
  | { readonly kind: 'run'; readonly command: readonly [string, ...string[]] }

/** A step of a plan with what carries it out and what takes it back. */
export interface Move {
  readonly step: PlanStep
  readonly action: Action
  readonly undo?: Action | undefined
}

export interface Write {
  readonly path: string
  readonly value: string
}

/** A move that writes to an attribute. */
export function write(id: string, title: string, path: string, value: string, undo: Write): Move {
  return {
    step: { id, title, command: `echo ${value} > ${path}`, undo: `echo ${undo.value} > ${undo.path}` },
    action: { kind: 'write', path, value },
    undo: { kind: 'write', ...undo },
  }
}

/** A move that runs a program. */
export function run(
  id: string,
  title: string,
  command: readonly [string, ...string[]],
  undo: readonly [string, ...string[]],
): Move {
  return {
    step: { id, title, command: command.join(' '), undo: undo.join(' ') },
    action: { kind: 'run', command },
    undo: { kind: 'run', command: undo },
  }
}

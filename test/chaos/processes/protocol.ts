/** What a work computes. */
export interface Task {
  readonly words: number
  readonly steps: number
}

/** In a process that is killed at each of its points. */
export const life: Task = { words: 512, steps: 120 }

/** In a child of `survive`: long enough to be killed several times. */
export const survived: Task = { words: 4_096, steps: 500 }

/** Where a process ends itself: when it comes by this place for so many times. */
export interface KillAt {
  readonly point: string
  readonly visit: number
}

/** What a process says before it ends. What it says was so when it said it. */
export type FromLife =
  /** The journal of an earlier process named this work as interrupted. */
  | { readonly type: 'born'; readonly isRemembered: boolean }
  | { readonly type: 'remembered'; readonly isSo: boolean }
  | { readonly type: 'resumed'; readonly progress: number }
  | { readonly type: 'saved'; readonly progress: number }
  | { readonly type: 'torn'; readonly message: string }
  | { readonly type: 'finished'; readonly result: string | undefined; readonly doubleOwners: number }
  | { readonly type: 'visits'; readonly visits: Readonly<Record<string, number>> }

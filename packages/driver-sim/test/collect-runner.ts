import type { Runner } from '@egpu/core/testing'

export interface Verdict {
  /** Names of the groups around the test, then its own. */
  readonly path: readonly string[]
  readonly outcome: 'passed' | 'failed' | 'skipped'
  readonly reason: string | undefined
}

/** A runner that only remembers; `verdicts()` then runs everything and says how each test went. */
export function collectRunner(): { readonly runner: Runner; readonly verdicts: () => Promise<Verdict[]> } {
  const path: string[] = []
  const tests: (() => Promise<Verdict>)[] = []
  const runner: Runner = {
    describe: (name, body) => {
      path.push(name)
      body()
      path.pop()
    },
    it: (name, body) => {
      const full = [...path, name]
      tests.push(async () => {
        let skipped: string | undefined
        const skip = (reason?: string): void => {
          skipped = reason ?? 'no reason given'
        }
        try {
          await body({ skip })
        } catch (error) {
          return { path: full, outcome: 'failed', reason: String(error) }
        }
        return { path: full, outcome: skipped === undefined ? 'passed' : 'skipped', reason: skipped }
      })
    },
  }
  return {
    runner,
    verdicts: async () => {
      const verdicts: Verdict[] = []
      for (const test of tests) verdicts.push(await test())
      return verdicts
    },
  }
}

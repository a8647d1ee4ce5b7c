import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** Tests read the sources of every @egpu package, so none needs a build first. */
const resolve = { conditions: ['@egpu/source', 'node', 'import', 'default'] }
const ssr = { resolve: { conditions: resolve.conditions } }

const rooms = ['packages', 'examples'].flatMap((parent) => {
  try {
    return readdirSync(new URL(`./${parent}/`, import.meta.url)).map((name) => ({ name, root: `${parent}/${name}` }))
  } catch {
    return []
  }
})

/** On a busy machine; what hangs is found all the same. */
const patience = { testTimeout: 120_000, expect: { poll: { timeout: 60_000 } } }

export default defineConfig({
  test: {
    reporters: ['default', './scripts/skip-reporter.mjs', './scripts/failure-reporter.mjs'],
    // Many tests wait for processes of their own: one worker, the default on two cores, would leave a core idle.
    maxWorkers: Math.max(2, availableParallelism()),
    projects: [
      ...rooms.map(({ name, root }) => ({
        resolve,
        ssr,
        test: { name, root, include: ['test/**/*.test.ts'], exclude: ['test/system/**'], ...patience },
      })),
      { resolve, ssr, test: { name: 'house', root: '.', include: ['test/*.test.ts'], ...patience } },
    ],
  },
})

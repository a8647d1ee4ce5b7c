import { existsSync, readdirSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

const conditions = ['@egpu/source', 'node', 'import', 'default']
const rooms = readdirSync(new URL('./packages/', import.meta.url))
  .map((name) => `packages/${name}`)
  .filter((room) => existsSync(new URL(`./${room}/test/system/`, import.meta.url)))

/** Tests on real parts: a kernel in QEMU, a browser, packed tarballs. One file at a time: they are heavy. */
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name: 'system',
    include: ['test/system/**/*.test.ts', ...rooms.map((room) => `${room}/test/system/**/*.test.ts`)],
    fileParallelism: false,
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ['default', './scripts/skip-reporter.mjs', './scripts/failure-reporter.mjs'],
  },
})

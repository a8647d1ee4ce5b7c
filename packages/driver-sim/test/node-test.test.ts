import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'tsup'
import { describe, expect, it } from 'vitest'

describe('the compliance suite under node:test', () => {
  it('runs the same test file, with every rule passing and none skipped', async () => {
    const outDir = await mkdtemp(join(tmpdir(), 'egpu-node-test-'))
    try {
      await build({
        config: false,
        silent: true,
        entry: { compliance: fileURLToPath(new URL('compliance.test.ts', import.meta.url)) },
        outDir,
        outExtension: () => ({ js: '.mjs' }),
        format: 'esm',
        target: 'node20',
        platform: 'node',
        noExternal: [/.*/],
        removeNodeProtocol: false,
        esbuildOptions: (options) => {
          options.conditions = ['@egpu/source']
          // The one difference between the runners is where `describe` and `it` come from.
          options.alias = { vitest: 'node:test' }
          // tsup leaves vitest alone otherwise.
          options.external = []
        },
      })
      const { stdout } = await promisify(execFile)(process.execPath, [
        '--test',
        '--test-reporter=tap',
        join(outDir, 'compliance.mjs'),
      ])
      expect(Number(/^# pass (\d+)$/m.exec(stdout)?.[1])).toBeGreaterThan(140)
      expect(stdout).toMatch(/^# fail 0$/m)
      expect(stdout).toMatch(/^# skipped 0$/m)
    } finally {
      await rm(outDir, { recursive: true })
    }
  })
})

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { positives } from '../cases.ts'
import { toPlist } from '../registry-tree.ts'

const home = new URL('../..', import.meta.url)

/** The script is for people who built the package, and `npm test` builds before its system stage. */
describe('pnpm smoke:macos', () => {
  it('reports on a dump without telling whose Mac it is', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'egpu-smoke-'))
    try {
      const file = join(directory, 'dump.plist')
      await writeFile(file, toPlist((positives[0] as (typeof positives)[number]).tree()))
      const script = new URL('scripts/smoke.mjs', home).pathname
      const { stdout } = await promisify(execFile)(process.execPath, [script, '--from', file])
      const report = JSON.parse(stdout) as {
        readonly snapshot: { readonly devices: readonly { readonly gpu: object }[] }
      }
      expect(report.snapshot.devices.map((device) => device.gpu)).toMatchObject([
        { vendorId: 0x10de, deviceId: 0x2684 },
      ])
      expect(stdout).not.toMatch(/8087b6dc08810300|IOService:|429496/)
    } finally {
      await rm(directory, { recursive: true })
    }
  })

  it.skipIf(process.platform === 'darwin')('says what it needs where there is no Mac to look at', async () => {
    const script = new URL('scripts/smoke.mjs', home).pathname
    const run = promisify(execFile)(process.execPath, [script])
    await expect(run).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/macOS 11 or later.*--from/) })
  })
})

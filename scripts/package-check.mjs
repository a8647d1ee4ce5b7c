/** Packs the package it is run in and asks publint and attw whether what a user would install is sound. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pnpm, tool } from './pnpm.mjs'

const cwd = process.cwd()
const scratch = mkdtempSync(join(tmpdir(), 'egpu-pack-'))
try {
  let status = pnpm(['pack', '--pack-destination', scratch, '--silent'], {
    cwd,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const tarball = join(scratch, readdirSync(scratch).find((name) => name.endsWith('.tgz')) ?? 'missing.tgz')
  if (status === 0) status = tool('publint', ['run', tarball, '--strict'], { cwd })
  if (status === 0)
    status = tool('attw', [tarball, '--profile', 'esm-only', '--format', 'ascii', '--no-emoji'], { cwd })
  process.exitCode = status
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

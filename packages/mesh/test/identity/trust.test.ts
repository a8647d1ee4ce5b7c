import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Trust } from '../../src/identity/trust.ts'

const peerId = 'a'.repeat(64)

function directory(): string {
  const made = mkdtempSync(join(tmpdir(), 'egpu-trust-'))
  onTestFinished(() => rmSync(made, { recursive: true }))
  return made
}

it('a list of paired hosts that cannot be read pairs nobody, and says so', () => {
  const home = directory()
  const trust = new Trust(home, undefined)
  trust.add({ id: peerId, name: 'peer', pairedAt: '2026-12-01T00:00:00Z' })
  expect([trust.has(peerId), trust.trouble]).toEqual([true, undefined])
  writeFileSync(join(home, 'peers.json'), '[{')
  const afresh = new Trust(home, undefined)
  expect(afresh.trouble).toContain('peers.json')
  expect(afresh.has(peerId)).toBe(false)
})

it('a program that says itself who is paired has no list to read', () => {
  const trust = new Trust('/nowhere/at/all', (id) => id === peerId)
  expect([trust.has(peerId), trust.has('b'.repeat(64)), trust.trouble]).toEqual([true, false, undefined])
})

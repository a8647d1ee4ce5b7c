import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { findSwiftShader, prepareLossRig } from '../src/testing/index.ts'

let home: string
beforeEach((context) => {
  const cannot = process.platform !== 'linux' || findSwiftShader() === undefined
  context.skip(cannot, 'does not apply to this rig: no SwiftShader')
  home = mkdtempSync(join(tmpdir(), 'egpu-cache-test-'))
  vi.stubEnv('TMPDIR', home)
})
afterEach(() => {
  vi.unstubAllEnvs()
  if (home !== undefined) rmSync(home, { recursive: true, force: true })
})

const layers = (place: string): readonly string[] => readdirSync(join(place, 'egpu'))

test('the loss layer is kept where XDG_CACHE_HOME says, also when nothing of that is there', () => {
  const place = join(home, 'not', 'there')
  vi.stubEnv('XDG_CACHE_HOME', place)
  prepareLossRig()
  expect(layers(place)).toEqual([expect.stringMatching(/^loss-layer-.*\.so$/)])
})

test.each(['', 'nowhere'])('XDG_CACHE_HOME=%j counts as none', (given) => {
  vi.stubEnv('XDG_CACHE_HOME', given)
  prepareLossRig()
  expect(existsSync('nowhere')).toBe(false)
  expect(layers(join(home, `egpu-cache-${process.getuid?.()}`))).toHaveLength(1)
})

test.each([
  ['is open to everybody', (place: string) => (mkdirSync(place), chmodSync(place, 0o777))],
  ['is a link to elsewhere', (place: string) => (mkdirSync(`${place}-other`), symlinkSync(`${place}-other`, place))],
])('no library is loaded from a place among the temporary files that %s', (_, make) => {
  vi.stubEnv('XDG_CACHE_HOME', '')
  make(join(home, `egpu-cache-${process.getuid?.()}`))
  expect(() => prepareLossRig()).toThrow(
    expect.objectContaining({ code: 'EGPU_NATIVE_UNAVAILABLE', message: expect.stringContaining('XDG_CACHE_HOME') }),
  )
})

test('a place where no directory can be made is told', () => {
  vi.stubEnv('XDG_CACHE_HOME', '/proc/self/nothing')
  expect(() => prepareLossRig()).toThrow(
    expect.objectContaining({
      code: 'EGPU_NATIVE_UNAVAILABLE',
      message: expect.stringContaining('/proc/self/nothing'),
    }),
  )
})

import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest'
import { defaultStateDirectory, prepareStateDirectory } from '../src/checkpoint/state-directory.ts'

const folder = mkdtempSync(join(tmpdir(), 'egpu-state-directory-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
afterEach(() => void vi.restoreAllMocks())

describe('where notes on CUDA processes are kept', () => {
  it('is below XDG_RUNTIME_DIR, unless that is empty or no absolute path', () => {
    vi.spyOn(process, 'getuid').mockReturnValue(4_242)
    expect(defaultStateDirectory('/run/user/7')).toBe('/run/user/7/egpu/cuda')
    for (const given of ['', 'relative', './here'])
      expect(defaultStateDirectory(given)).toBe(join(tmpdir(), 'egpu-cuda-4242'))
  })

  it('is the same for root, whatever the session says', () => {
    vi.spyOn(process, 'getuid').mockReturnValue(0)
    expect(defaultStateDirectory('/run/user/7')).toBe('/run/egpu/cuda')
  })

  it('is made for its owner alone, with what is missing above it', () => {
    const directory = join(folder, 'one', 'two')
    prepareStateDirectory(directory)
    prepareStateDirectory(directory)
    expect(statSync(directory).mode & 0o777).toBe(0o700)
  })

  it('is refused where others may write', () => {
    const directory = join(folder, 'open')
    mkdirSync(directory)
    chmodSync(directory, 0o722)
    expect(() => prepareStateDirectory(directory)).toThrow(expect.objectContaining({ code: 'EGPU_PERMISSION_DENIED' }))
  })

  it('does not hang where the system makes nothing', () => {
    expect(() => prepareStateDirectory('/proc/nowhere/egpu/cuda')).toThrow(expect.objectContaining({ code: 'ENOENT' }))
  })
})

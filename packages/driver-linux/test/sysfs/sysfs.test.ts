import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSysfs } from '../../src/sysfs/sysfs.ts'
import { readTopology } from '../../src/topology/read-topology.ts'

let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'egpu-sysfs-'))
})
afterAll(() => rmSync(root, { recursive: true }))

describe.runIf(process.platform !== 'win32')('openSysfs', () => {
  it('cuts the line end and nothing else', () => {
    writeFileSync(join(root, 'vendor'), '0x10de\n')
    expect(openSysfs(root).read('', 'vendor')).toBe('0x10de')
  })

  it('says why an attribute cannot be read', () => {
    mkdirSync(join(root, 'device'))
    symlinkSync('class', join(root, 'class'))
    expect(openSysfs(root).read('', 'device')).toEqual({ error: 'EISDIR' })
    expect(openSysfs(root).read('', 'class')).toEqual({ error: 'ELOOP' })
    expect(openSysfs(root).read('gone', 'vendor')).toEqual({ error: 'ENOENT' })
  })

  it('takes one page of a file that never ends', () => {
    symlinkSync('/dev/zero', join(root, 'security'))
    expect(openSysfs(root).read('', 'security')).toHaveLength(4096)
  })

  it('does not wait for a pipe that nobody writes to', () => {
    execFileSync('mkfifo', [join(root, 'generation')])
    expect(openSysfs(root).read('', 'generation')).toBe('')
  })

  it('reads a tree whose links go round in circles', async () => {
    const devices = join(root, 'bus/pci/devices')
    mkdirSync(devices, { recursive: true })
    symlinkSync('0000:00:01.0', join(devices, '0000:00:01.0'))
    symlinkSync('../../../devices/../../../../etc', join(devices, '0000:00:02.0'))
    symlinkSync('..', join(devices, '0000:00:03.0'))
    const topology = await readTopology(root)
    expect([...topology.pci.keys()]).toEqual([])
  })
})

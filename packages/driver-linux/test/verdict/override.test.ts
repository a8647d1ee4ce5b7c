import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuError } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { defaultOverridesPath, loadOverrides } from '../../src/overrides-file.ts'
import { parseOverrides } from '../../src/verdict/override.ts'

it('looks for the file below the home directory, never below the working directory', () => {
  expect(defaultOverridesPath('/config')).toBe(join('/config', 'egpu', 'overrides.json'))
  for (const given of [undefined, '', 'config']) {
    expect(defaultOverridesPath(given)).toBe(join(homedir(), '.config', 'egpu', 'overrides.json'))
  }
})

describe('parseOverrides', () => {
  it('reads ids as lspci prints them', () => {
    const text = '{ "gpus": [{ "match": "10DE:2684 1458:40bf", "verdict": "external", "transport": "oculink" }] }'
    expect(parseOverrides(text)).toEqual([
      {
        vendorId: 0x10de,
        deviceId: 0x2684,
        subsystemVendorId: 0x1458,
        subsystemDeviceId: 0x40bf,
        verdict: 'external',
        transport: 'oculink',
      },
    ])
  })

  it.each([
    ['nothing', 'is not JSON'],
    ['{}', 'array "gpus"'],
    ['null', 'array "gpus"'],
    ['{ "gpus": [null] }', 'gpus[0].match'],
    ['{ "gpus": [{ "match": "10de" }] }', 'gpus[0].match'],
    ['{ "gpus": [{ "match": "10de:2684", "verdict": "maybe" }] }', 'gpus[0].verdict'],
    ['{ "gpus": [{ "match": "10de:2684", "verdict": "external", "transport": "string" }] }', 'gpus[0].transport'],
  ])('says what is wrong with %s', (text, words) => {
    let thrown: unknown
    try {
      parseOverrides(text)
    } catch (error) {
      thrown = error
    }
    expect(EGpuError.is(thrown, 'EGPU_MALFORMED_DATA')).toBe(true)
    expect(String(thrown)).toContain(words)
  })
})

describe('loadOverrides', () => {
  it('does not wait for somebody to write into a FIFO', () => {
    const directory = mkdtempSync(join(tmpdir(), 'egpu-overrides-'))
    const path = join(directory, 'overrides.json')
    execFileSync('mkfifo', [path])
    expect(loadOverrides(path).findings.map(({ code }) => code)).toEqual(['override-file-unusable'])
    rmSync(directory, { recursive: true })
  })
})

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { linuxDriver } from '../../src/index.ts'
import { buildMachine, machineNamed } from '../machines/index.ts'
import type { BuiltMachine } from '../machines/index.ts'

let built: BuiltMachine
let directory: string
beforeAll(() => {
  built = buildMachine(machineNamed('gpd-win-4-deg1-rx9070xt'))
  directory = mkdtempSync(join(tmpdir(), 'egpu-overrides-'))
})
afterAll(() => {
  built[Symbol.dispose]()
  rmSync(directory, { recursive: true })
})

describe('linuxDriver', () => {
  it('probes usable where there are PCI devices, and says why not elsewhere', async () => {
    await using here = linuxDriver({ sysfsRoot: built.sysfsRoot })
    await using nowhere = linuxDriver({ sysfsRoot: directory })
    expect(await here.probe()).toEqual({ usable: true })
    expect(await nowhere.probe()).toMatchObject({ usable: false, reason: expect.stringContaining('bus/pci/devices') })
  })

  it('refuses a root that is no path', () => {
    expect(() => linuxDriver({ sysfsRoot: '' })).toThrow(TypeError)
    expect(() => linuxDriver({ procRoot: 7 as unknown as string })).toThrow(/procRoot/)
  })

  it('rejects with the abort reason, untouched', async () => {
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
    const reason = new Error('enough')
    await expect(driver.list({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })

  it('follows an override file, and reads it afresh each time', async () => {
    const overrides = join(directory, 'overrides.json')
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot, overrides })
    const verdict = async (): Promise<unknown> =>
      (await driver.list()).devices.find(({ gpu }) => gpu.deviceId === 0x7550)?.verdict
    expect(await verdict()).toMatchObject({ conclusion: 'external', confidence: expect.closeTo(0.5, 1) })
    writeFileSync(overrides, '{ "gpus": [{ "match": "1002:7550", "verdict": "internal" }] }')
    expect(await verdict()).toMatchObject({ conclusion: 'internal', confidence: 1 })
  })

  it('lists the machine all the same when the override file is broken, and says so', async () => {
    const overrides = join(directory, 'broken.json')
    writeFileSync(overrides, '{ "gpus": [{ "match": "rtx" }] }')
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot, overrides })
    const { devices, findings } = await driver.list()
    expect(devices).toHaveLength(2)
    expect(findings).toContainEqual(
      expect.objectContaining({ code: 'override-file-unusable', seen: expect.stringContaining('gpus[0].match') }),
    )
  })

  it('does not mix this machine with a recorded one', async () => {
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
    const { findings } = await driver.list()
    expect(findings.filter(({ code }) => code === 'kernel-too-old')).toEqual([])
  })
})

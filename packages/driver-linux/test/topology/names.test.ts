import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { linuxDriver, pciNames } from '../../src/index.ts'
import { buildMachine, machineNamed } from '../machines/index.ts'

const list = `# comment
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t743f  Navi 24 [Radeon RX 6500M]
\t\t17aa 50e8  ThinkPad Z16
10de  NVIDIA Corporation
\t2b85  GB202 [GeForce RTX 5090]
\t2b86  GB202
1234  Technical Corp.
`

let directory: string
let path: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'egpu-pci-ids-'))
  path = join(directory, 'pci.ids')
  writeFileSync(path, list)
})
afterAll(() => rmSync(directory, { recursive: true }))

describe('pciNames', () => {
  it('gives the name on the box, or the chip', () => {
    const names = pciNames([join(directory, 'missing'), path])
    expect(names(0x10de, 0x2b85)).toBe('GeForce RTX 5090')
    expect(names(0x10de, 0x2b86)).toBe('GB202')
  })

  it('does not take a device of the next vendor for one of this', () => {
    const names = pciNames([path])
    expect(names(0x1002, 0x2b85)).toBeUndefined()
    expect(names(0x17aa, 0x50e8)).toBeUndefined()
    expect(names(0xffff, 0x0001)).toBeUndefined()
  })

  it('knows no names without a list', () => {
    expect(pciNames([])(0x10de, 0x2b85)).toBeUndefined()
  })

  it('names GPUs and what is said about them', async () => {
    using built = buildMachine(machineNamed('aorus-healthy-unbound'))
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot, pciNames: pciNames([path]) })
    const { devices, findings } = await driver.list()
    expect(devices.map(({ gpu }) => gpu.name)).toEqual([undefined, 'GeForce RTX 5090'])
    expect(findings[0]?.seen).toBe('No driver is bound to the GPU 10de:2b85 (GeForce RTX 5090) at 0000:04:00.0.')
  })
})

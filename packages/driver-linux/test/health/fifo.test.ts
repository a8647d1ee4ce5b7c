import { execFileSync } from 'node:child_process'
import { realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { linuxDriver } from '../../src/index.ts'
import { buildMachine, machineNamed } from '../machines/index.ts'

it('a FIFO in place of a counter does not hang a health sample', async () => {
  using built = buildMachine(machineNamed('aorus-healthy-unbound'))
  const gpu = realpathSync(join(built.sysfsRoot, 'bus/pci/devices/0000:04:00.0'))
  for (const name of ['aer_dev_correctable', 'aer_dev_nonfatal', 'aer_dev_fatal', 'mem_info_vram_used']) {
    rmSync(join(gpu, name), { force: true })
    execFileSync('mkfifo', [join(gpu, name)])
  }
  await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
  const { devices } = await driver.list()
  const key = devices.find(({ verdict }) => verdict?.conclusion === 'external')?.key
  await expect(driver.health?.sample(key as string)).resolves.toBeDefined()
})

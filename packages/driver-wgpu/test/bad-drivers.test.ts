import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { wgpuDriver } from '../src/index.ts'
import { useRealVulkan } from './support/real-vulkan.ts'

useRealVulkan()
const directory = mkdtempSync(join(tmpdir(), 'egpu-bad-driver-'))
afterAll(() => rmSync(directory, { recursive: true }))
afterEach(() => void vi.unstubAllEnvs())

function installDriver(library: string): void {
  const manifest = join(directory, 'icd.json')
  writeFileSync(
    manifest,
    JSON.stringify({ file_format_version: '1.0.0', ICD: { library_path: library, api_version: '1.1.0' } }),
  )
  vi.stubEnv('VK_DRIVER_FILES', manifest)
  vi.stubEnv('VK_ICD_FILENAMES', manifest)
}

test('a driver that crashes on loading is named, and the application lives', async () => {
  const source = join(directory, 'crash.c')
  writeFileSync(
    source,
    '#include <signal.h>\nvoid *vk_icdGetInstanceProcAddr(void *i, const char *n) { raise(SIGSEGV); return 0; }\n',
  )
  execFileSync('cc', ['-w', '-shared', '-fPIC', '-o', join(directory, 'crash.so'), source])
  installDriver(join(directory, 'crash.so'))
  await using driver = wgpuDriver()
  expect(await driver.probe()).toMatchObject({ usable: false, reason: expect.stringMatching(/crashed.*SIGSEGV/) })
  expect(await driver.list()).toMatchObject({ devices: [] })
  expect(await driver.runtime.targets()).toEqual([])
})

test('a driver whose library is missing is named', async () => {
  installDriver('/nowhere/libvulkan_gone.so')
  await using driver = wgpuDriver()
  expect(await driver.probe()).toMatchObject({ usable: false, reason: expect.stringMatching(/libvulkan_gone\.so/) })
})

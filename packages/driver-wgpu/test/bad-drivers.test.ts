import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { wgpuDriver } from '../src/index.ts'
import { useRealVulkan } from './support/real-vulkan.ts'

useRealVulkan()
// Each look is a process, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 })
const goodDriver = process.env['VK_DRIVER_FILES'] ?? ''
const directory = mkdtempSync(join(tmpdir(), 'egpu-bad-driver-'))
afterAll(() => rmSync(directory, { recursive: true }))
afterEach(() => void vi.unstubAllEnvs())

function manifest(name: string, library: string): string {
  const path = join(directory, `${name}.json`)
  const driver = { file_format_version: '1.0.0', ICD: { library_path: library, api_version: '1.1.0' } }
  writeFileSync(path, JSON.stringify(driver))
  return path
}

function compiled(name: string, source: string): string {
  const [code, library] = [join(directory, `${name}.c`), join(directory, `${name}.so`)]
  writeFileSync(code, source)
  execFileSync('cc', ['-w', '-shared', '-fPIC', '-o', library, code])
  return manifest(name, library)
}

function install(...manifests: readonly string[]): void {
  vi.stubEnv('VK_DRIVER_FILES', manifests.join(':'))
  vi.stubEnv('VK_ICD_FILENAMES', manifests.join(':'))
}

const crashes = (): string =>
  compiled(
    'crash',
    '#include <signal.h>\nvoid *vk_icdGetInstanceProcAddr(void *i, const char *n) { raise(SIGSEGV); return 0; }\n',
  )
const aborts = (): string =>
  compiled('abort', '#include <stdlib.h>\n__attribute__((constructor)) static void load(void) { abort(); }\n')
const hangs = (): string =>
  compiled('hang', '#include <unistd.h>\n__attribute__((constructor)) static void load(void) { for (;;) pause(); }\n')

describe('the only driver', () => {
  test.for([
    ['crashes on its first call', crashes, /crashed.*SIGSEGV/],
    ['aborts on loading', aborts, /crashed.*SIGABRT/],
    ['hangs on loading', hangs, /did not end within 6000 ms.*hangs/],
  ] as const)('%s: the refusal says so, and the application lives', async ([, make, reason]) => {
    install(make())
    await using driver = wgpuDriver(make === hangs ? { driverTimeoutMs: 6000 } : {})
    expect(await driver.probe()).toMatchObject({ usable: false, reason: expect.stringMatching(reason) })
    expect((await driver.list()).devices).toEqual([])
    expect(await driver.runtime.targets()).toEqual([])
  })

  test('has no library: it is named', async () => {
    install(manifest('gone', '/nowhere/libvulkan_gone.so'))
    await using driver = wgpuDriver()
    expect(await driver.probe()).toMatchObject({ usable: false, reason: expect.stringMatching(/libvulkan_gone\.so/) })
  })
})

describe('a bad driver beside a good one', () => {
  test('is left out and named, and the good one works', async () => {
    const bad = aborts()
    install(bad, goodDriver, manifest('gone', '/nowhere/libvulkan_gone.so'))
    const before = { ...process.env }
    await using driver = wgpuDriver()
    expect(await driver.probe()).toEqual({ usable: true })
    const targets = await driver.runtime.targets()
    expect(targets).toMatchObject([{ name: 'SwiftShader Device (Subzero)' }])
    const open = await driver.runtime.open(targets[0]?.id ?? '')
    expect(open.handle.limits.maxBufferSize).toBeGreaterThan(0)
    expect((await driver.list()).findings).toMatchObject([
      { code: 'vulkan-driver-broken', seen: expect.stringContaining(bad), evidence: [{ source: bad }] },
    ])
    expect({ ...process.env }).toEqual(before)
  })

  test('whose manifest is garbage, which makes the loader fail altogether, is left out', async () => {
    const garbage = join(directory, 'garbage.json')
    writeFileSync(garbage, '{ this is no JSON')
    install(garbage, goodDriver)
    await using driver = wgpuDriver()
    expect(await driver.probe()).toEqual({ usable: true })
    expect(await driver.runtime.targets()).toHaveLength(1)
    expect((await driver.list()).findings).toMatchObject([{ evidence: [{ source: garbage }] }])
  })
})

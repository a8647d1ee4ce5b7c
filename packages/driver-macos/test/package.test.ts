import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ioregSource, iokitSource, macosDriver } from '../src/index.ts'
import { smallDump } from './mutate.ts'

/** Libraries this process has loaded. */
function loadedLibraries(): string[] {
  return (process.report.getReport() as { readonly sharedObjects: string[] }).sharedObjects
}

describe('the package', () => {
  it('loads no native code before the first call', async () => {
    const hasKoffi = (): boolean => loadedLibraries().some((name) => name.includes('koffi'))
    await using driver = macosDriver()
    expect(hasKoffi()).toBe(false)
    await driver.probe()
    expect(hasKoffi()).toBe(true)
  })

  it.skipIf(process.platform === 'darwin')('says in probe() why it cannot work off macOS', async () => {
    await using driver = macosDriver()
    const reason = expect.stringMatching(/^IOKit exists on macOS only and this is \w+; read a dump with plistSource/)
    expect(await driver.probe()).toMatchObject({ usable: false, reason })
    await expect(driver.list()).rejects.toMatchObject({ code: 'EGPU_NATIVE_UNAVAILABLE' })
  })

  it('refuses options that make no sense', () => {
    expect(() => macosDriver({ settleMs: 0 })).toThrow(TypeError)
    expect(() => macosDriver({ rescanMs: Number.NaN })).toThrow(TypeError)
    expect(() => iokitSource({ pollIntervalMs: -1 })).toThrow(TypeError)
    expect(() => iokitSource({ mode: 'both' as 'poll' })).toThrow(TypeError)
  })
})

describe('ioregSource', () => {
  async function withProgram(body: string, use: (command: string) => Promise<void>): Promise<void> {
    const directory = await mkdtemp(join(tmpdir(), 'egpu-ioreg-'))
    try {
      const command = join(directory, 'ioreg')
      await writeFile(join(directory, 'dump.plist'), smallDump())
      await writeFile(command, `#!/bin/sh\n${body.replaceAll('DUMP', join(directory, 'dump.plist'))}\n`, {
        mode: 0o755,
      })
      await use(command)
    } finally {
      await rm(directory, { recursive: true })
    }
  }

  it('reads what the program prints, asking for class inheritance', async () => {
    await withProgram(`case "$*" in *-d1*) ;; "-a -l -i -w0") cat DUMP ;; *) exit 64 ;; esac`, async (command) => {
      await using driver = macosDriver({ source: ioregSource({ command }) })
      expect(await driver.probe()).toEqual({ usable: true })
      expect(driver.capabilities.hotplug).toBe(false)
      expect((await driver.list()).devices.map((device) => device.key)).toContain('apple-gpu')
    })
  })

  it('says so when the program is missing, fails, or prints nonsense', async () => {
    await using absent = macosDriver({ source: ioregSource({ command: '/nowhere/ioreg' }) })
    expect(await absent.probe()).toMatchObject({ usable: false })
    await expect(absent.list()).rejects.toMatchObject({ code: 'EGPU_NATIVE_UNAVAILABLE' })
    await withProgram('exit 1', async (command) => {
      await using driver = macosDriver({ source: ioregSource({ command }) })
      await expect(driver.list()).rejects.toMatchObject({ code: 'EGPU_NATIVE_UNAVAILABLE' })
    })
    await withProgram('echo hello', async (command) => {
      await using driver = macosDriver({ source: ioregSource({ command }) })
      await expect(driver.list()).rejects.toMatchObject({ code: 'EGPU_MALFORMED_DATA' })
    })
  })

  it('lets go of a program that hangs when the driver is closed', async () => {
    await withProgram('exec sleep 60', async (command) => {
      const driver = macosDriver({ source: ioregSource({ command }) })
      const ended = [driver.list(), driver.probe(), driver.health?.sample('apple-gpu')].map((call) =>
        expect(call).rejects.toMatchObject({ code: 'EGPU_CLOSED' }),
      )
      await driver.close()
      await Promise.all(ended)
    })
  })

  it('lets go of a program that hangs when its signal aborts', async () => {
    await withProgram('exec sleep 60', async (command) => {
      await using driver = macosDriver({ source: ioregSource({ command }) })
      const end = new AbortController()
      const reason = new Error('enough')
      const listing = driver.list({ signal: end.signal })
      end.abort(reason)
      await expect(listing).rejects.toBe(reason)
    })
  })
})

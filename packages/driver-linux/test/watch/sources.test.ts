import { execFile, execFileSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { kernelSource, netlinkSource, udevSource } from '../../src/watch/netlink-source.ts'
import { openFirstSource } from '../../src/watch/open-source.ts'
import { pollSource } from '../../src/watch/poll-source.ts'
import type { SourceMessage, UeventSource } from '../../src/watch/source.ts'
import { udevadmSource } from '../../src/watch/udevadm-source.ts'
import { kernelDatagram, udevadmBlock, udevMessage } from './messages.ts'

/** A device that exists on every Linux machine and does not mind a synthetic event. */
const trigger = '/sys/class/mem/null/uevent'
const netlinkSourceUrl = new URL('../../src/watch/netlink-source.ts', import.meta.url).href
const listener = new URL('listen.mjs', import.meta.url).href
const isRoot = process.getuid?.() === 0
const onLinux = process.platform === 'linux'

const opened: UeventSource[] = []
afterEach(async () => {
  for (const source of opened.splice(0)) await source.close()
})

/** Collects messages and lets a test wait for one of them. */
function collector(): {
  readonly messages: SourceMessage[]
  readonly listen: (message: SourceMessage) => void
  readonly seen: (test: (message: SourceMessage) => boolean) => Promise<SourceMessage>
} {
  const messages: SourceMessage[] = []
  let notify: (() => void) | undefined
  return {
    messages,
    listen: (message) => {
      messages.push(message)
      notify?.()
    },
    seen: async (test) => {
      for (;;) {
        const found = messages.find(test)
        if (found !== undefined) return found
        await new Promise<void>((resolve) => {
          notify = resolve
        })
      }
    },
  }
}

const isNull = (message: SourceMessage): boolean =>
  message.type === 'uevent' && message.event.devpath === '/devices/virtual/mem/null'

describe.runIf(onLinux)('the kernel source', () => {
  it.runIf(isRoot)('hears what the kernel says', async () => {
    const { listen, seen } = collector()
    opened.push(await kernelSource(listen))
    writeFileSync(trigger, 'change')
    expect(await seen(isNull)).toMatchObject({ event: { action: 'change', subsystem: 'mem' } })
  })

  it.runIf(isRoot)('drops what a process sent, however well it is forged', async () => {
    const { listen, seen, messages } = collector()
    opened.push(await kernelSource(listen))
    sendToGroup(1, kernelDatagram({ ACTION: 'remove', DEVPATH: '/devices/forged', SUBSYSTEM: 'pci', SEQNUM: '1' }))
    writeFileSync(trigger, 'change')
    await seen(isNull)
    expect(messages.some((message) => message.type === 'uevent' && message.event.devpath.includes('forged'))).toBe(
      false,
    )
  })

  it.runIf(isRoot)('says that messages were lost, and goes on', async () => {
    const { listen, seen, messages } = collector()
    opened.push(await netlinkSource('kernel', { receiveBufferBytes: 2304 })(listen))
    for (let round = 0; !messages.some(({ type }) => type === 'overflow') && round < 200; round++) {
      for (let count = 0; count < 500; count++) writeFileSync(trigger, 'change')
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await seen(({ type }) => type === 'overflow')
    messages.length = 0
    writeFileSync(trigger, 'change')
    await seen(isNull)
  })

  it('rejects with the abort reason', async () => {
    const stop = new AbortController()
    const opening = kernelSource(() => {}, { signal: stop.signal })
    stop.abort(new Error('changed my mind'))
    await expect(opening).rejects.toThrow('changed my mind')
    await expect(kernelSource(() => {}, { signal: stop.signal })).rejects.toThrow('changed my mind')
  })

  it('lets the process end once it is closed, and closes twice', async () => {
    const source = await kernelSource(() => {})
    await Promise.all([source.close(), source.close()])
    await source.close()
  })

  it('ends in time for a process that waits for nothing else', async () => {
    const program = `
      import { linuxDriver } from '@egpu/driver-linux'
      const driver = linuxDriver()
      const watch = driver.watch({ signal: new AbortController().signal })[Symbol.asyncIterator]()
      await watch.next()
      await driver.close()
      console.log((await watch.next()).done)`
    const args = ['--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', program]
    const options = { timeout: 15_000, cwd: new URL('../../', import.meta.url) }
    expect((await promisify(execFile)(process.execPath, args, options)).stdout.trim()).toBe('true')
  })

  it.runIf(isRoot)('lets promises that a listener resolves go on at once, also when nothing else happens', async () => {
    const child = start(`
      const heard = new Promise((resolve) => open(resolve).then(() => console.log('listening')))
      await heard
      process.exit(7)`)
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.stdout?.once('data', () => setTimeout(() => writeFileSync(trigger, 'change'), 200))
    expect(await ended).toBe(7)
  })

  it.runIf(isRoot)('lets a listener end the process', async () => {
    const said = await run(`await open(() => process.exit(7)); poke()`)
    expect(said).toEqual({ code: 7, stdout: '', stderr: '' })
  })

  it.runIf(isRoot)('passes what a listener throws to the process, as any event does, and goes on', async () => {
    const said = await run(`
      let count = 0
      process.on('uncaughtException', (error) => { console.log(error.message); poke() })
      await open(() => { if (++count === 1) throw new Error('first'); process.exit(7) })
      poke()`)
    expect(said).toEqual({ code: 7, stdout: 'first\n', stderr: '' })
  })

  it.runIf(isRoot)('works in a worker thread, which may be terminated at any time', { timeout: 60_000 }, async () => {
    const said = await run(`
      const { Worker } = await import('node:worker_threads')
      for (let round = 0; round < 2; round++) {
        const worker = new Worker(new URL(${JSON.stringify(listener)}), { workerData: ${JSON.stringify(netlinkSourceUrl)}, execArgv: [] })
        const said = (word) => new Promise((resolve) => worker.on('message', (message) => message === word && resolve()))
        await said('listening')
        const heard = said('heard')
        for (let count = 0; count < 20; count++) poke()
        await heard
        await worker.terminate()
      }
      console.log('alive')
      process.exit(7)`)
    expect(said).toEqual({ code: 7, stdout: 'alive\n', stderr: '' })
  })
})

describe.runIf(onLinux)('the udev source', () => {
  const forged = { ACTION: 'remove', DEVPATH: '/devices/forged', SUBSYSTEM: 'pci', SEQNUM: '1' }

  it.runIf(isRoot)('hears root, as which udevd runs', async () => {
    const { listen, seen } = collector()
    opened.push(await udevSource(listen))
    sendToGroup(2, udevMessage(forged))
    expect(await seen(({ type }) => type === 'uevent')).toMatchObject({ event: { devpath: '/devices/forged' } })
  })

  it.runIf(isRoot && has('setpriv'))('drops what another user sent, even one with CAP_NET_ADMIN', async () => {
    const { listen, seen, messages } = collector()
    opened.push(await udevSource(listen))
    const sender = new URL('send-to-group.mjs', import.meta.url).pathname
    const caps = ['--reuid=65534', '--inh-caps=+net_admin', '--ambient-caps=+net_admin']
    const body = Buffer.from(udevMessage(forged)).toString('base64')
    execFileSync('setpriv', [...caps, process.execPath, sender, '2', body])
    sendToGroup(2, udevMessage({ ...forged, DEVPATH: '/devices/last' }))
    await seen((message) => message.type === 'uevent' && message.event.devpath === '/devices/last')
    expect(messages).toHaveLength(1)
  })
})

describe('the udevadm source', () => {
  const shell = (script: string): ReturnType<typeof udevadmSource> => udevadmSource({ command: ['sh', '-c', script] })

  it('hands on what the child prints, and says when it ends', async () => {
    const block = udevadmBlock({ ACTION: 'add', DEVPATH: '/devices/x', SUBSYSTEM: 'pci', SEQNUM: '9' })
    const { listen, seen } = collector()
    opened.push(
      await shell(`printf 'monitor will print\\n\\n'; sleep 0.1; printf '%s\\n\\n' '${block}'; exit 3`)(listen),
    )
    expect(await seen(({ type }) => type === 'uevent')).toMatchObject({ event: { seqnum: 9, subsystem: 'pci' } })
    expect(await seen(({ type }) => type === 'failed')).toMatchObject({ reason: 'sh ended with 3' })
  })

  it('rejects with what the child complained about', async () => {
    await expect(shell('echo no such socket >&2; exit 1')(() => {})).rejects.toThrow('sh ended with 1: no such socket')
  })

  it('rejects when there is no such program', async () => {
    await expect(udevadmSource({ command: ['/nonexistent/udevadm'] })(() => {})).rejects.toThrow('cannot start')
  })

  it.runIf(isRoot && has('udevadm'))('hears the kernel through the real udevadm', async () => {
    const { listen, seen } = collector()
    opened.push(await udevadmSource()(listen))
    writeFileSync(trigger, 'change')
    expect(await seen(isNull)).toMatchObject({ event: { action: 'change' } })
  })
})

describe('the poll source', () => {
  it('notices a device that appears, and one that goes, and nothing else', async () => {
    const root = mkdtempSync(join(tmpdir(), 'egpu-poll-'))
    try {
      const device = join(root, 'bus/pci/devices/0000:04:00.0')
      mkdirSync(join(root, 'bus/pci/devices'), { recursive: true })
      const { listen, seen, messages } = collector()
      opened.push(await pollSource({ sysfsRoot: root, intervalMs: 5 })(listen))
      await new Promise((resolve) => setTimeout(resolve, 50))
      expect(messages).toEqual([])
      mkdirSync(device)
      await seen(({ type }) => type === 'changed')
      messages.length = 0
      rmSync(device, { recursive: true })
      await seen(({ type }) => type === 'changed')
    } finally {
      rmSync(root, { recursive: true })
    }
  })
})

describe('the fallback chain', () => {
  const broken = (reason: string) => () => Promise.reject(new Error(reason))

  it('takes the first source that works and keeps why the others did not', async () => {
    const { source, refusals } = await openFirstSource(
      [
        { kind: 'kernel', open: broken('koffi is not installed') },
        { kind: 'udev', open: broken('EPERM') },
        { kind: 'poll', open: pollSource({ sysfsRoot: '/nonexistent' }) },
      ],
      () => {},
    )
    opened.push(source)
    expect(source.kind).toBe('poll')
    expect(refusals).toEqual([
      { kind: 'kernel', reason: 'koffi is not installed' },
      { kind: 'udev', reason: 'EPERM' },
    ])
  })

  it('fails with every reason when none works', async () => {
    const failing = openFirstSource([{ kind: 'kernel', open: broken('EAFNOSUPPORT') }], () => {})
    await expect(failing).rejects.toSatisfy((error) => EGpuError.is(error, EGpuErrorCode.NativeUnavailable))
    await expect(failing).rejects.toThrow('kernel: EAFNOSUPPORT')
  })
})

function has(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Multicasts from an ordinary socket, which root may. */
function sendToGroup(group: number, datagram: Uint8Array): void {
  const sender = new URL('send-to-group.mjs', import.meta.url).pathname
  execFileSync(process.execPath, [sender, String(group), Buffer.from(datagram).toString('base64')])
}

/** Starts a program that can `open` the kernel source and `poke` the kernel from a process of its own. */
function start(
  program: string,
  ended: (error: Error | null, stdout: string, stderr: string) => void = () => {},
): ChildProcess {
  const prelude = `
    import { kernelSource as open } from ${JSON.stringify(netlinkSourceUrl)}
    import { spawn } from 'node:child_process'
    const poke = () => spawn('sh', ['-c', 'echo change > ${trigger}'], { stdio: 'ignore', detached: true }).unref()`
  const args = ['--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', `${prelude}\n${program}`]
  return execFile(process.execPath, args, { timeout: 50_000, cwd: new URL('../../', import.meta.url) }, ended)
}

async function run(
  program: string,
): Promise<{ readonly code: unknown; readonly stdout: string; readonly stderr: string }> {
  return new Promise((resolve) => {
    const child = start(program, (_error, stdout, stderr) => resolve({ code: child.exitCode, stdout, stderr }))
  })
}

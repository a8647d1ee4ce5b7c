import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import koffi from 'koffi'
import { afterEach, describe, expect, it } from 'vitest'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { kernelSource, netlinkSource } from '../../src/watch/netlink-source.ts'
import { openFirstSource } from '../../src/watch/open-source.ts'
import { pollSource } from '../../src/watch/poll-source.ts'
import type { SourceMessage, UeventSource } from '../../src/watch/source.ts'
import { udevadmSource } from '../../src/watch/udevadm-source.ts'
import { kernelDatagram, udevadmBlock } from './messages.ts'

/** A device that exists on every Linux machine and does not mind a synthetic event. */
const trigger = '/sys/class/mem/null/uevent'
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

  it('does not keep process.exit() from returning', async () => {
    const worker = new URL('../../src/native/netlink-worker.js', import.meta.url)
    const program = `
      const { Worker } = require('node:worker_threads')
      const stop = new Int32Array(new SharedArrayBuffer(4))
      const worker = new Worker(new URL(${JSON.stringify(worker.href)}), { workerData: { group: 1, onlyFromKernel: true, stop } })
      worker.on('message', () => process.exit(7))`
    const ending = promisify(execFile)(process.execPath, ['-e', program], { timeout: 15_000 })
    await expect(ending).rejects.toMatchObject({ code: 7, killed: false })
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
  const libc = koffi.load(null)
  const fd = libc.func('int socket(int, int, int)')(16, 2, 15) as number
  const address = Buffer.alloc(12)
  address.writeUInt16LE(16, 0)
  address.writeUInt32LE(group, 8)
  const send = libc.func('intptr_t sendto(int, const void *, size_t, int, const void *, uint32_t)')
  const sent = Number(send(fd, datagram, datagram.byteLength, 0, address, 12))
  libc.func('int close(int)')(fd)
  if (sent !== datagram.byteLength) throw new Error(`sendto failed with errno ${koffi.errno()}`)
}

import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface VmOptions {
  readonly kernel: string
  readonly initrd: string
  readonly append?: string | undefined
  readonly machine?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly bootTimeoutMs?: number | undefined
}

/** Something a guest said on its own. */
export interface GuestEvent {
  readonly event: string
  readonly [key: string]: unknown
}

interface Waiting {
  resolve(value: unknown): void
  reject(error: Error): void
}

/**
 * QEMU died, hung or refused: the machinery failed, which says nothing about the code under test. The message has the
 * tail of what QEMU and the guest's console said.
 */
export class HarnessError extends Error {
  override readonly name: string = 'HarnessError'
}

/** Generous: the whole suite shares two cores with whatever else runs. */
const callTimeoutMs = 400_000

/** A virtual machine under software emulation, its monitor, and the agent inside it. */
export class Vm implements AsyncDisposable {
  readonly #options: VmOptions
  readonly #directory: string
  readonly #qemu: ChildProcess
  readonly #died: Promise<never>
  readonly #pending = new Map<number, Waiting>()
  readonly #listeners = new Set<(event: GuestEvent) => void>()
  #dead: string | undefined
  #stderr = ''
  #nextId = 1
  #monitor: Socket | undefined
  #agent: Socket | undefined

  static async boot(options: VmOptions): Promise<Vm> {
    const vm = new Vm(options)
    try {
      await vm.#connect()
      return vm
    } catch (error) {
      await vm.close()
      throw error
    }
  }

  private constructor(options: VmOptions) {
    this.#options = options
    this.#directory = mkdtempSync(join(tmpdir(), 'egpu-vm-'))
    this.#qemu = spawn('qemu-system-x86_64', this.#arguments(), { stdio: ['ignore', 'ignore', 'pipe'] })
    this.#qemu.stderr?.setEncoding('utf8').on('data', (piece: string) => {
      this.#stderr = (this.#stderr + piece).slice(-4000)
    })
    process.once('exit', this.#kill)
    this.#died = new Promise((_, reject) => {
      const end = (why: string): void => {
        this.#dead = why
        const error = this.#failure(why)
        for (const waiting of this.#pending.values()) waiting.reject(error)
        this.#pending.clear()
        reject(error)
      }
      this.#qemu.once('error', (error) => end(`cannot start QEMU: ${error.message}`))
      this.#qemu.once('exit', (code, signal) => end(`QEMU ended with ${code ?? signal}`))
    })
    this.#died.catch(() => {})
  }

  /** Calls a method of guest/agent.mjs or guest/procedures.mjs. */
  async call<T>(method: string, ...args: readonly unknown[]): Promise<T> {
    return (await this.#request(this.#agent, { method, args }, `guest method ${method}`)) as T
  }

  /** Runs a shell command in the guest; throws when it fails. */
  async sh(command: string): Promise<string> {
    const { code, stdout, stderr } = await this.call<{ code: number; stdout: string; stderr: string }>('sh', command)
    if (code !== 0) throw new Error(`guest: ${command}: exit ${code}: ${stderr.trim()}`)
    return stdout.trim()
  }

  /** A command of the QEMU Machine Protocol. */
  qmp(execute: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    return this.#request(this.#monitor, { execute, arguments: args }, `QMP ${execute}`)
  }

  /** A command of the human monitor, for what QMP does not have. */
  async hmp(line: string): Promise<string> {
    return (await this.qmp('human-monitor-command', { 'command-line': line })) as string
  }

  /** Runs `change` while the guest stands still, so that it sees all of it at once. */
  async frozen(change: () => Promise<void>): Promise<void> {
    await this.qmp('stop')
    try {
      await change()
    } finally {
      await this.qmp('cont')
    }
  }

  onEvent(listener: (event: GuestEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** What the guest's console printed last. */
  console(): string {
    try {
      return readFileSync(join(this.#directory, 'console'), 'utf8').slice(-3000)
    } catch {
      return ''
    }
  }

  async close(): Promise<void> {
    this.#kill()
    await this.#died.catch(() => {})
    process.off('exit', this.#kill)
    this.#monitor?.destroy()
    this.#agent?.destroy()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  readonly #kill = (): void => {
    if (this.#dead === undefined) this.#qemu.kill('SIGKILL')
  }

  #arguments(): string[] {
    const { kernel, initrd, append = '', machine = 'q35', args = [] } = this.#options
    const socket = (name: string): string => `unix:${join(this.#directory, name)},server=on,wait=off`
    const fixed = '-nodefaults -no-user-config -no-reboot -display none -vga none -nic none -smp 2 -m 1024M -cpu max'
    return [
      ...fixed.split(' '),
      '-machine',
      machine,
      '-accel',
      'tcg,thread=multi',
      '-kernel',
      kernel,
      '-initrd',
      initrd,
      '-append',
      `console=ttyS0 panic=-1 ${append}`.trim(),
      '-serial',
      `file:${join(this.#directory, 'console')}`,
      '-qmp',
      socket('qmp'),
      '-device',
      'virtio-serial-pci,bus=pcie.0,addr=0x1e',
      '-chardev',
      `socket,id=agent,path=${join(this.#directory, 'agent')},server=on,wait=off`,
      '-device',
      'virtserialport,chardev=agent,name=agent',
      ...args,
    ]
  }

  async #connect(): Promise<void> {
    this.#monitor = await this.#lines('qmp', (message) => this.#answer(message, 'return'))
    await this.qmp('qmp_capabilities')
    const ready = new Promise<void>((resolve) => {
      const off = this.onEvent(({ event }) => {
        if (event !== 'ready') return
        off()
        resolve()
      })
    })
    this.#agent = await this.#lines('agent', (message) => {
      if (typeof message['event'] === 'string') for (const listener of this.#listeners) listener(message as GuestEvent)
      else this.#answer(message, 'result')
    })
    await this.#before(ready, this.#options.bootTimeoutMs ?? 240_000, 'the guest to boot')
  }

  /** Connects to a socket that QEMU is about to make, and reads JSON lines from it. */
  async #lines(name: string, read: (message: Record<string, unknown>) => void): Promise<Socket> {
    for (;;) {
      if (this.#dead !== undefined) throw this.#failure(this.#dead)
      const socket = connect(join(this.#directory, name))
      const failed = await new Promise<Error | undefined>((resolve) => {
        socket.once('connect', () => resolve(undefined)).once('error', resolve)
      })
      if (failed !== undefined) {
        await sleep(20)
        continue
      }
      let rest = ''
      socket.on('error', () => {}) // its end is told by the process's
      socket.setEncoding('utf8').on('data', (piece: string) => {
        const lines = (rest + piece).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) if (line.trim() !== '') read(JSON.parse(line) as Record<string, unknown>)
      })
      return socket
    }
  }

  async #request(socket: Socket | undefined, message: object, what: string): Promise<unknown> {
    if (this.#dead !== undefined || socket === undefined) throw this.#failure(this.#dead ?? 'not connected')
    const id = this.#nextId++
    const answer = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }))
    socket.write(`${JSON.stringify({ ...message, id })}\n`)
    return this.#before(answer, callTimeoutMs, what)
  }

  #answer(message: Record<string, unknown>, key: string): void {
    const waiting = this.#pending.get(message['id'] as number)
    if (waiting === undefined) return
    this.#pending.delete(message['id'] as number)
    const error = message['error'] as { desc?: string; message?: string; code?: string; stack?: string } | undefined
    if (error === undefined) waiting.resolve(message[key])
    else {
      const text = error.desc ?? error.message ?? 'failed'
      waiting.reject(Object.assign(new Error(text, { cause: error.stack }), { code: error.code }))
    }
  }

  async #before<T>(work: Promise<T>, timeoutMs: number, what: string): Promise<T> {
    const timer = new AbortController()
    const late = sleep(timeoutMs, undefined, { signal: timer.signal }).then(
      () => {
        throw this.#failure(`no answer within ${timeoutMs / 1000} s: ${what}`)
      },
      () => new Promise<never>(() => {}),
    )
    try {
      return await Promise.race([work, this.#died, late])
    } finally {
      timer.abort()
    }
  }

  #failure(why: string): HarnessError {
    return new HarnessError(`${why}\n--- QEMU: ${this.#stderr.trim()}\n--- guest console: ${this.console()}`)
  }
}

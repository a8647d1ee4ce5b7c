import { spawn } from 'node:child_process'
import type { OpenUeventSource, UeventSource } from './source.ts'
import { UeventSourceKind } from './source.ts'
import { UdevadmText } from './udevadm-text.ts'

export interface UdevadmSourceOptions {
  /** Program and arguments; the default asks for the kernel's events, which come without a running udevd. */
  readonly command?: readonly [string, ...string[]] | undefined
}

/** Uevents from a `udevadm monitor` child, for machines where koffi cannot be loaded. */
export function udevadmSource(options: UdevadmSourceOptions = {}): OpenUeventSource {
  const [program, ...args] = options.command ?? ['udevadm', 'monitor', '--kernel', '--property']
  return async (listener, { signal } = {}) => {
    signal?.throwIfAborted()
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
    let closing = false
    const close = (): Promise<void> => {
      closing = true
      child.kill('SIGKILL')
      return exited
    }
    return new Promise<UeventSource>((resolve, reject) => {
      let listening = false
      let heading = ''
      let complaint = ''
      const abort = (): void => {
        void close()
        reject(signal?.reason)
      }
      const ended = (why: string): void => {
        signal?.removeEventListener('abort', abort)
        if (closing) return
        const reason = complaint.trim() === '' ? why : `${why}: ${complaint.trim()}`
        if (listening) listener({ type: 'failed', reason })
        else reject(new Error(reason))
      }
      signal?.addEventListener('abort', abort, { once: true })
      child.once('error', (error) => ended(`cannot start ${program}: ${error.message}`))
      child.once('close', (code, killer) => ended(`${program} ended with ${code ?? killer}`))
      child.stderr.setEncoding('utf8').on('data', (piece: string) => {
        complaint = (complaint + piece).slice(-1000)
      })
      const text = new UdevadmText()
      child.stdout.setEncoding('utf8').on('data', (piece: string) => {
        if (closing) return
        // Its heading ends with an empty line, which comes after the socket is bound; what it says before does not.
        heading = listening ? '' : heading + piece
        if (!listening && heading.includes('\n\n')) {
          listening = true
          signal?.removeEventListener('abort', abort)
          resolve({ kind: UeventSourceKind.Udevadm, close, [Symbol.asyncDispose]: close })
        }
        for (const event of text.push(piece)) listener({ type: 'uevent', event })
      })
    })
  }
}

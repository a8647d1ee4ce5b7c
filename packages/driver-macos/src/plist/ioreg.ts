import { execFile } from 'node:child_process'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { ProbeResult } from '@egpu/core/driver'
import type { RegistrySource } from '../registry/source.ts'
import { listSystemExtensions } from '../system-extensions.ts'
import { readDump } from './source.ts'

export interface IoregSourceOptions {
  /** The program to run. */
  readonly command?: string | undefined
}

/** A large Mac's whole registry is some 30 MB of XML. */
const maxBytes = 256 * 1024 * 1024

/**
 * The live registry through the `ioreg` program, for a Mac on which the native module cannot be installed. A look
 * costs about a second, so there is no watching; use `iokitSource()` where it works.
 */
export function ioregSource(options: IoregSourceOptions = {}): RegistrySource {
  const command = options.command ?? '/usr/sbin/ioreg'
  return {
    name: 'ioreg',
    probe: ({ signal } = {}) =>
      new Promise<ProbeResult>((resolve, reject) => {
        // `-d1` prints one entry: enough to know that the program is there and works.
        execFile(command, ['-a', '-d1'], { signal, timeout: 10_000 }, (error) => {
          if (signal?.aborted === true) reject(signal.reason)
          else if (error === null) resolve({ usable: true })
          else resolve({ usable: false, reason: `${command} does not run here (${error.message})`, cause: error })
        })
      }),
    open: async ({ signal } = {}) => readDump(await run(command, signal)).registry,
    systemExtensions: listSystemExtensions,
    async [Symbol.asyncDispose]() {},
  }
}

function run(command: string, signal: AbortOptions['signal']): Promise<string> {
  return new Promise((resolve, reject) => {
    const limits = { signal, timeout: 30_000, maxBuffer: maxBytes }
    execFile(command, ['-a', '-l', '-i', '-w0'], limits, (error, stdout) => {
      if (signal?.aborted === true) {
        reject(signal.reason)
      } else if (error === null) {
        resolve(stdout)
      } else {
        const message = `${command} -a -l -i -w0 failed: ${error.message}`
        reject(new EGpuError(EGpuErrorCode.NativeUnavailable, message, { cause: error }))
      }
    })
  })
}

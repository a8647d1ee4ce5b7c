import { execFile } from 'node:child_process'
import type { AbortOptions } from '@egpu/core'

/** What `systemextensionsctl list` prints; it needs no root. `undefined` when it is not there or does not answer. */
export function listSystemExtensions({ signal }: AbortOptions): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    execFile('/usr/bin/systemextensionsctl', ['list'], { signal, timeout: 5000 }, (error, stdout) => {
      if (signal?.aborted === true) reject(signal.reason)
      else resolve(error === null ? stdout : undefined)
    })
  })
}

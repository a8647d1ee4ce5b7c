import { spawn } from 'node:child_process'
import type { AbortOptions } from '@egpu/core'
import type { Action } from './moves.ts'

/** Carries out one action; rejects with what the system said. */
export type Execute = (action: Action, options: AbortOptions) => Promise<void>

/**
 * Carries out an action in a child process: writing to `remove` runs the driver's own code, and a driver that hangs must
 * not hang this process. An abandoned child is left to the kernel.
 */
export const executeInChild: Execute = (action, { signal }) => {
  const [program, ...args] =
    action.kind === 'write'
      ? (['/bin/sh', '-c', 'printf "%s\\n" "$1" > "$2"', 'egpu', action.value, action.path] as const)
      : action.command
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true })
    let complaint = ''
    const abort = (): void => {
      child.unref()
      child.stderr.destroy()
      reject(signal?.reason)
    }
    if (signal?.aborted === true) abort()
    signal?.addEventListener('abort', abort, { once: true })
    child.stderr.setEncoding('utf8').on('data', (piece: string) => {
      complaint = (complaint + piece).slice(-1000)
    })
    child.once('error', (error) => {
      signal?.removeEventListener('abort', abort)
      reject(new Error(`cannot start ${program}: ${error.message}`))
    })
    child.once('close', (code, killer) => {
      signal?.removeEventListener('abort', abort)
      if (code === 0) resolve()
      else reject(new Error(complaint.trim() || `${program} ended with ${code ?? killer}`))
    })
  })
}

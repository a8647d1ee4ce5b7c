import { spawn } from 'node:child_process'
import type { SpawnOptions } from 'node:child_process'
import type { AbortOptions } from '@egpu/core'

export interface RunOptions extends AbortOptions {
  /**
   * The one GPU it may see, by UUID: then it can be moved off it. Without, CUDA opens all there are, and the program can
   * only be parked.
   */
  readonly gpu?: string | undefined
  readonly environment?: Readonly<Record<string, string>> | undefined
  /** As `child_process.spawn` takes it; the terminal's by default. */
  readonly stdio?: SpawnOptions['stdio']
  /** Called once it runs. */
  readonly onStart?: ((pid: number) => void) | undefined
}

/** How a program ended: its exit code, or the signal that ended it. */
export type RunResult = { readonly exitCode: number } | { readonly endedBy: NodeJS.Signals }

/**
 * What keeps memory that the driver shares between processes out of the way, which it cannot restore: NCCL then copies
 * through files in /dev/shm. https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html; with
 * P2P, or with cuMem buffers, two processes could be parked and never resumed (driver 580, NCCL of PyTorch 2.11).
 */
const movable: Readonly<Record<string, string>> = {
  NCCL_P2P_DISABLE: '1',
  NCCL_CUMEM_ENABLE: '0',
  NCCL_CUMEM_HOST_ENABLE: '0',
  NCCL_NVLS_ENABLE: '0',
}

/**
 * Starts a program so that it can be parked and moved: as a process group of its own, which is what belongs together,
 * and with NCCL told to do without shared GPU memory. Aborting `signal` asks it to end (SIGTERM). Rejects when it cannot
 * be started.
 */
export function runMovable(command: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  const { signal, stdio = 'inherit', environment = {}, onStart, gpu } = options
  signal?.throwIfAborted()
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      detached: true,
      env: { ...movable, ...process.env, ...(gpu === undefined ? {} : { CUDA_VISIBLE_DEVICES: gpu }), ...environment },
      stdio,
    })
    const end = (): void => void child.kill('SIGTERM')
    signal?.addEventListener('abort', end, { once: true })
    child.once('spawn', () => {
      if (child.pid !== undefined) onStart?.(child.pid)
    })
    child.once('error', (error) => {
      signal?.removeEventListener('abort', end)
      reject(error)
    })
    child.once('close', (code, endedBy) => {
      signal?.removeEventListener('abort', end)
      resolve(endedBy === null ? { exitCode: code ?? 1 } : { endedBy })
    })
  })
}

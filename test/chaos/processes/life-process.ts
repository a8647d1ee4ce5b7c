import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import type { FromLife, KillAt } from './protocol.ts'

/** Longer than any life on a busy machine: what takes longer hangs. */
const mostMs = 120_000

/** How a process ended. */
export type LifeEnd = 'killed' | 'finished' | { readonly problem: string }

/** The parent's end of one process that works in `directory`. */
export class LifeProcess {
  readonly ended: Promise<LifeEnd>
  readonly #child: ChildProcess
  readonly #hearers: ((message: FromLife) => void)[] = []
  #isHung = false

  constructor(directory: string, killAt?: KillAt) {
    // Beside this file once both are compiled: a loader for TypeScript in each process would take most of the time.
    const child = fork(new URL('./life.js', import.meta.url), [directory, JSON.stringify(killAt) ?? ''], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#child = child
    let stderr = ''
    child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString('utf8')))
    child.on('message', (message: FromLife) => {
      for (const hear of this.#hearers) hear(message)
      if (message.type === 'finished') child.send('known', () => undefined)
    })
    const patience = setTimeout(() => {
      this.#isHung = true
      this.kill()
    }, mostMs)
    this.ended = new Promise((resolve) => {
      // Everything it said has been heard by then.
      child.on('close', (code, signal) => {
        clearTimeout(patience)
        if (this.#isHung) resolve({ problem: `a process did not end within ${mostMs} ms` })
        else if (signal === 'SIGKILL') resolve('killed')
        else if (code === 0) resolve('finished')
        else resolve({ problem: `a process ended with ${signal ?? code}: ${stderr}` })
      })
    })
  }

  onMessage(hear: (message: FromLife) => void): void {
    this.#hearers.push(hear)
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** To its end, with how often it came by each point. Rejects where it does not get there. */
  async undisturbed(): Promise<{ readonly visits: Readonly<Record<string, number>>; readonly lifeMs: number }> {
    const startedAt = performance.now()
    let visits: Readonly<Record<string, number>> | undefined
    this.onMessage((message) => {
      if (message.type === 'visits') ({ visits } = message)
    })
    const end = await this.ended
    if (visits !== undefined && end === 'finished') return { visits, lifeMs: performance.now() - startedAt }
    throw new Error(`work that nobody disturbed did not finish: ${JSON.stringify(end)}`)
  }
}

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'

/**
 * Has shell lines run once this process is gone, however it ends, or as soon as the result is called, which resolves when
 * they are done. Whoever carries it out waits for the end of a pipe, which is all that a killed process still says.
 */
export function lastWill(lines: string): () => Promise<void> {
  // In a session of its own: Ctrl-C is for all of a terminal's.
  const child = spawn('sh', ['-c', `cat > /dev/null; ${lines}`], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  const exited = once(child, 'exit')
  child.unref()
  ;(child.stdin as Socket).unref()
  return async () => {
    child.ref()
    child.stdin.end()
    await exited
  }
}

/** A command line that the kernel ends with whoever starts it (PR_SET_PDEATHSIG), also when that one is killed. */
export function mortal(command: string, ...args: readonly string[]): [string, string[]] {
  return ['setpriv', ['--pdeathsig', 'KILL', command, ...args]]
}

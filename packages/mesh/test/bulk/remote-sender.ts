import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ChunkRef } from '../../src/bulk/chunk.ts'
import type { BulkAddress } from '../../src/bulk/server.ts'

export interface RemoteSenderOptions {
  readonly path: string
  readonly encrypted: boolean
  readonly host?: string | undefined
  readonly chunkBytes?: number | undefined
  /** Makes the command line run elsewhere, for instance in a network namespace. */
  readonly inside?: ((command: string, ...args: string[]) => [string, string[]]) | undefined
}

export interface RemoteSender extends AsyncDisposable {
  readonly address: BulkAddress
  readonly ref: ChunkRef
  ticket(): Promise<string>
  /** What went out, counting what did not arrive. */
  sent(): Promise<{ readonly chunks: number; readonly bytes: number }>
}

/** A sender that has a processor to itself, as one on another host has. */
export async function remoteSender(options: RemoteSenderOptions): Promise<RemoteSender> {
  const {
    path,
    encrypted,
    host = '127.0.0.1',
    chunkBytes = 2 ** 22,
    inside = (command, ...args) => [command, args],
  } = options
  const script = fileURLToPath(new URL('./sender-process.ts', import.meta.url))
  const loader = ['--conditions=@egpu/source', '--import=tsx', script]
  const [command, args] = inside(process.execPath, ...loader, path, host, String(encrypted), String(chunkBytes))
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const next = async (): Promise<string> => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error('the sender has ended')
    return value
  }
  let turn: Promise<unknown> = Promise.resolve()
  const ask = (line: string): Promise<string> => {
    const answer = turn.then(() => {
      child.stdin.write(`${line}\n`)
      return next()
    })
    turn = answer.catch(() => undefined)
    return answer
  }
  const { address, ref } = JSON.parse(await next()) as { address: BulkAddress; ref: ChunkRef }
  return {
    address,
    ref,
    ticket: () => ask('ticket'),
    sent: async () => JSON.parse(await ask('sent')) as { chunks: number; bytes: number },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

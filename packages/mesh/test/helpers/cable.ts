import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface CableOptions {
  /** One way; both directions get it. */
  readonly delayUs?: number | undefined
  readonly mtu?: number | undefined
}

/** A cable in user space between two network namespaces. Directions: 0 from the first end, 1 from the second. */
export interface Cable extends AsyncDisposable {
  delay(direction: 0 | 1, microseconds: number): Promise<void>
  /** 1000 permille loses everything while the carrier stays on. */
  loss(direction: 0 | 1, permille: number): Promise<void>
  carrier(on: boolean): Promise<void>
  close(): Promise<void>
}

type End = readonly [namespaceFile: string, interfaceName: string]

/** Plugs a cable in. It ends with this process at the latest. */
export async function cable(a: End, b: End, { delayUs = 0 }: CableOptions = {}): Promise<Cable> {
  const child = spawn(await compiled(), [...a, ...b], { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const answer = async (what: string): Promise<void> => {
    const { value, done } = await lines.next()
    if (done === true || value !== 'ok') throw new Error(`the cable did not take "${what}": ${String(value)}`)
  }
  /** One command after the other, so that each reads its own answer. */
  let turn = answer('start')
  const command = (text: string): Promise<void> => {
    turn = turn.then(() => {
      child.stdin.write(`${text}\n`)
      return answer(text)
    })
    return turn
  }
  const close = async (): Promise<void> => {
    child.stdin.end()
    await exited
  }
  await turn
  for (const direction of [0, 1]) await command(`delay ${direction} ${delayUs}`)
  return {
    delay: (direction, microseconds) => command(`delay ${direction} ${Math.round(microseconds)}`),
    loss: (direction, permille) => command(`loss ${direction} ${permille}`),
    carrier: (on) => command(`carrier ${on ? 1 : 0}`),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Compiles the cable once per change of its source. */
async function compiled(): Promise<string> {
  const source = fileURLToPath(new URL('./cable.c', import.meta.url))
  const folder = join(tmpdir(), `egpu-mesh-cable-${process.getuid?.() ?? 0}`)
  const binary = join(folder, `cable-${Math.round(statSync(source).mtimeMs)}`)
  if (existsSync(binary)) return binary
  mkdirSync(folder, { recursive: true })
  const fresh = `${binary}.${process.pid}`
  await run('cc', ['-O2', '-Wall', '-Wextra', '-Werror', '-o', fresh, source])
  renameSync(fresh, binary)
  return binary
}

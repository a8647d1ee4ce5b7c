/** A host with a simulated eGPU in a process of its own, which can be inside a network namespace. Obeys commands over IPC. */
import type { PeerConnections } from '../../src/control/peer-connection.ts'
import { side } from '../helpers/planes.ts'
import { host } from './hosts.ts'
import type { Host } from './hosts.ts'

export type MoveCommand =
  | { readonly run: 'open'; readonly byteLength: number }
  | { readonly run: 'dial'; readonly host: string; readonly port: number }
  | { readonly run: 'warm'; readonly byteLength: number }
  | { readonly run: 'begin' }
  | { readonly run: 'yank' }
  | { readonly run: 'move'; readonly peerId: string }

/** Touches so much memory and gives it back to the allocator, for what comes to reuse. */
function warm(byteLength: number): void {
  const pieces = Array.from({ length: Math.ceil(byteLength / 2 ** 28) }, () => Buffer.allocUnsafeSlow(2 ** 28).fill(1))
  pieces.length = 0
  globalThis.gc?.()
}

/** Neither is reached: it is work that goes on. */
const steps = 1e9
/** Checkpoints are made when the test says so. */
const checkpointIntervalMs = 1e9

let plane: { dial(target: { host: string; port: number }): Promise<unknown> } & PeerConnections
let opened: Host

async function obey(command: MoveCommand): Promise<unknown> {
  if (command.run === 'open') {
    const { byteLength } = command
    const { plane: made, port } = await side(() => true)
    plane = made
    opened = await host(plane, {
      memoryBytes: 2 ** 34,
      tally: { steps, byteLength, stepMs: 50 },
      checkpointIntervalMs,
      encrypted: false,
    })
    return { nodeId: plane.nodeId, port }
  }
  if (command.run === 'dial') {
    await plane.dial(command)
    return true
  }
  if (command.run === 'warm') {
    warm(command.byteLength)
    return true
  }
  if (command.run === 'begin') {
    const run = await opened.remote.run('tally', 'job')
    await run.run.started
    await run.run.checkpoint()
    return true
  }
  const [run] = opened.remote.runs
  if (run === undefined) throw new Error('nothing runs here')
  if (command.run === 'yank') {
    opened.driver.machine.enclosures[0]?.yank()
    while (run.run.where !== undefined) await new Promise((resolve) => setTimeout(resolve, 5))
    return true
  }
  return run.moveToPeer(command.peerId)
}

process.on('message', ({ id, command }: { readonly id: number; readonly command: MoveCommand }) => {
  obey(command).then(
    (answer) => process.send?.({ id, answer }),
    (error: unknown) => process.send?.({ id, error: String(error) }),
  )
})
process.send?.({ id: 0, answer: 'ready' })

import { errorFilters } from '../flags.ts'
import type { Core } from './core.ts'
import type { LogEntry } from './log/entry.ts'
import { BufferNode } from './nodes/buffer-node.ts'
import type { Node } from './nodes/node.ts'
import { TextureNode } from './nodes/texture-node.ts'

/** What bringing everything to the next device took. */
export interface Restored {
  entries: number
  bytes: number
}

interface Step {
  readonly seq: number
  /** The entry of the log that it does again, if it is one. */
  readonly entry?: LogEntry
  run(): void
}

/**
 * Makes every object again on the current device, brings back what it held at the last checkpoint, and does again what
 * was done since, in the order in which it was done first. It is a generator that stops after each entry of the log:
 * run through in one go nothing comes in between; run step by step, what was done meanwhile comes at the end.
 */
export function* restore(core: Core): Generator<LogEntry, Restored, undefined> {
  const { device } = core
  const quiet = new QuietErrors(device)
  const restored: Restored = { entries: 0, bytes: 0 }
  let done = 0
  for (let steps = stepsAfter(core, done, quiet, restored); steps.length > 0;) {
    for (const step of steps) {
      step.run()
      done = step.seq
      if (step.entry === undefined) continue
      restored.entries += 1
      yield step.entry
    }
    steps = stepsAfter(core, done, quiet, restored)
  }
  quiet.end()
  return restored
}

function stepsAfter(core: Core, seq: number, quiet: QuietErrors, restored: Restored): readonly Step[] {
  const { device } = core
  const steps: Step[] = []
  for (const node of core.registry.all()) {
    steps.push({ seq: node.seq, run: () => void (restored.bytes += bringBack(node, core)) })
  }
  for (const entry of core.log.all()) steps.push({ seq: entry.seq, entry, run: () => entry.replay(core) })
  for (const step of core.scopes.steps(core.epoch)) {
    const run = (): void => {
      // The application has a scope open here: what goes wrong from here on is its to hear.
      quiet.end()
      step.replay(device)
    }
    steps.push({ seq: step.seq, run })
  }
  return steps.filter((step) => step.seq > seq).sort((a, b) => a.seq - b.seq)
}

/**
 * Error scopes of our own around the part of the replay that nobody listens to: errors that objects and commands gave on
 * the last device they give on this one too, and nobody wants to hear them twice.
 */
class QuietErrors {
  readonly #device: GPUDevice
  #isQuiet = true

  constructor(device: GPUDevice) {
    this.#device = device
    for (const filter of errorFilters) device.pushErrorScope(filter)
  }

  end(): void {
    if (!this.#isQuiet) return
    this.#isQuiet = false
    for (const _ of errorFilters) this.#device.popErrorScope().catch(() => {})
  }
}

/** Makes one object again, with what it held at the last checkpoint. Returns the bytes that took. */
function bringBack(node: Node, { device, incarnation }: Core): number {
  node.rebuild(device)
  if (node instanceof BufferNode) {
    node.dirty.clear()
    if (node.saved === undefined || !isNeeded(node)) return 0
    device.queue.writeBuffer(node.real, 0, node.saved as Uint8Array<ArrayBuffer>)
    return node.saved.byteLength
  }
  if (!(node instanceof TextureNode)) return 0
  node.isDirty = false
  if (node.saved === undefined || !isNeeded(node)) return 0
  let bytes = 0
  for (const [index, image] of node.images().entries()) {
    const content = node.saved[index] as Uint8Array
    incarnation.mover.restore(node.real, image, content)
    bytes += content.byteLength
  }
  return bytes
}

/** A destroyed object matters only as long as the log goes back to before its end. */
function isNeeded(node: BufferNode | TextureNode): boolean {
  return !node.isDestroyed || node.isDestroyLogged
}

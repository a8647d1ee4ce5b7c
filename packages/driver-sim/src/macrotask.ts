/** Runs `resolve` after every promise callback that is queued now, and those they queue, has run. */
type Hop = (resolve: () => void) => void

/** `setImmediate` where there is one (Node, Deno, Bun); else a message channel, which browsers do not throttle. */
function findHop(): Hop {
  if (typeof setImmediate === 'function') {
    return (resolve) => {
      setImmediate(resolve)
    }
  }
  const waiting: (() => void)[] = []
  const { port1, port2 } = new MessageChannel()
  port1.addEventListener('message', () => waiting.shift()?.())
  port1.start()
  return (resolve) => {
    waiting.push(resolve)
    port2.postMessage(undefined)
  }
}

let hop: Hop | undefined

/** Resolves once all promise callbacks have run. */
export function macrotask(): Promise<void> {
  hop ??= findHop()
  return new Promise(hop)
}

// A thread of the child that `survive` works in: ends the whole process when its parent is gone. The event loop, which would
// hear of it, may stand still in a driver for ever. Plain JavaScript because a worker thread of Node 20 loads nothing else.
import { workerData } from 'node:worker_threads'

const everyMs = 1_000

/** Elsewhere an orphan gets another parent; on Windows it keeps the number of one that is no longer there. */
function isOrphan() {
  const parent = Number(workerData)
  if (process.ppid !== parent) return true
  try {
    process.kill(parent, 0)
    return false
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'ESRCH'
  }
}

setInterval(() => {
  if (isOrphan()) process.kill(process.pid, 'SIGKILL')
}, everyMs)

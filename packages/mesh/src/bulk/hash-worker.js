// @ts-check
// Plain JavaScript, since worker threads of Node 20 load no TypeScript: tests run the file that users run.
import { createHash } from 'node:crypto'
import { parentPort } from 'node:worker_threads'

/** @typedef {{ id: number, bytes: Uint8Array }} Job */

// The bytes are in shared memory: nothing is copied on their way here.
parentPort?.on('message', (/** @type {Job} */ { id, bytes }) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort?.postMessage({ id, sha256: createHash('sha256').update(bytes).digest('hex') })
})

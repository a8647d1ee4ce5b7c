// A thread that copies memory on request. Whoever asks keeps both ends in place until the answer.
import { parentPort } from 'node:worker_threads'
import { copyMemory } from './library.js'

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
port.on('message', ([destination, source, bytes]) => {
  copyMemory(destination, source, bytes)
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  port.postMessage('done')
})
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
port.postMessage('ready')

// A worker thread that listens to the kernel and says when it hears something.
import { parentPort, workerData } from 'node:worker_threads'
import { register } from 'tsx/esm/api'

/** oxlint takes it for a window's. */
const tell = parentPort.postMessage.bind(parentPort)

register()
const { kernelSource } = await import(workerData)
await kernelSource(() => tell('heard'))
tell('listening')

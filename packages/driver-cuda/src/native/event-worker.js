// Waits for NVML's events in a thread of its own, because waiting blocks. A thread of host.js; ../nvml/events.ts says
// what becomes of the events.
import { parentPort, workerData } from 'node:worker_threads'
import { Nvml } from './nvml.js'

const TIMEOUT = 10
/** How long a request to stop can go unnoticed. */
const waitMs = 500
/** Xid errors, GPU unavailable, recovery action changed. PState and clock changes are no news. */
const wanted = 0x8n | 0x4000n | 0x8000n

/** @type {{ library: string, busIds: readonly string[] | undefined, stop: Int32Array }} */
const { library, busIds, stop } = workerData
if (parentPort === null) throw new Error('this file is a worker')
const port = parentPort

const nvml = new Nvml(library)
nvml.list(busIds)
const set = nvml.eventSet(wanted)
port.postMessage({ ready: true })
while (Atomics.load(stop, 0) === 0) {
  const { result, busId, type, data } = set.wait(waitMs)
  if (busId !== undefined && type !== undefined) port.postMessage({ busId, type: Number(type), data: Number(data) })
  // With a lost GPU, waiting may fail at once, over and over.
  else if (result !== TIMEOUT) Atomics.wait(stop, 0, 0, waitMs)
}
set.free()
nvml.close()

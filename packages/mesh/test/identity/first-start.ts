/** A program that starts for the first time, again and again in a new folder, at the same moment as others. */
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { loadIdentity } from '../../src/identity/mesh-directory.ts'

const { gate, home, threads } = workerData as {
  readonly gate: Int32Array<SharedArrayBuffer>
  readonly home: string
  readonly threads: number
}
const ids: string[] = []
for (let round = 0; round < gate.length; round += 1) {
  Atomics.add(gate, round, 1)
  while (Atomics.load(gate, round) < threads);
  ids.push(loadIdentity(join(home, String(round)), 'machine').nodeId)
}
parentPort?.postMessage(ids, [])

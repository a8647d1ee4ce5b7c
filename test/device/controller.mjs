// Moves or parks one process and kills itself, with the process that makes the driver's calls, at one moment of it.
import { readFileSync } from 'node:fs'
import { listCudaProcesses } from '@egpu/driver-cuda'

const [pid, moment, gpu] = process.argv.slice(2)
const [step, when] = [moment.split('-')[1], moment.split('-')[0]]

function die() {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')
  for (const child of children) if (child !== '') process.kill(Number(child), 'SIGKILL')
  process.kill(process.pid, 'SIGKILL')
}

let reports = 0
const onProgress = (progress) => {
  if (progress.step !== step) return
  reports += 1
  const isEnd = progress.doneBytes === progress.totalBytes
  if (when === 'before' || (when === 'during' && reports > 1) || (when === 'after' && isEnd)) die()
}
const target = (await listCudaProcesses({ checkHostMemory: false })).find((one) => one.pid === Number(pid))
await (gpu === ''
  ? target.park({ onProgress }).then(() => target.resume({ onProgress }))
  : target.moveTo(gpu, { onProgress }))

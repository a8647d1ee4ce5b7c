// Moves or parks one process and kills itself, with the process that makes the driver's calls, at one moment of it:
// `before-` a call of the driver is sent, `during-` a copy, or `after-unlock`.
import childProcess from 'node:child_process'
import { readFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const [pid, moment, gpu] = process.argv.slice(2)
const [when, step] = moment.split('-')

function die() {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')
  for (const child of children) if (child !== '') process.kill(Number(child), 'SIGKILL')
  process.kill(process.pid, 'SIGKILL')
}

// The process that makes the calls is started by fork, and told what to do by its `send`.
const { fork } = childProcess
const last = when === 'after' ? 'cuda.hold' : `cuda.${step}`
let isUnlocked = false
childProcess.fork = (...args) => {
  const child = fork(...args)
  const { send } = child
  child.send = (message, ...rest) => {
    if (message.call === last && (when === 'before' || (when === 'after' && isUnlocked))) die()
    if (message.call === 'cuda.unlock') isUnlocked = true
    return send.call(child, message, ...rest)
  }
  return child
}
syncBuiltinESMExports()
const { listCudaProcesses } = await import('@egpu/driver-cuda')

let reports = 0
const onProgress = (progress) => {
  if (when !== 'during' || progress.step !== step) return
  reports += 1
  if (reports > 1) die()
}
const target = (await listCudaProcesses({ checkHostMemory: false })).find((one) => one.pid === Number(pid))
await (gpu === ''
  ? target.park({ onProgress }).then(() => target.resume({ onProgress }))
  : target.moveTo(gpu, { onProgress }))

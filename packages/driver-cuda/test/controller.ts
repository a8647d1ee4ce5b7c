// A controller that tests kill: does one thing to one process, with a fake machine's options from its arguments.
import { listCudaProcesses } from '../src/index.ts'
import type { CudaOptions } from '../src/index.ts'

const [options = '{}', pid, verb, gpu = ''] = process.argv.slice(2)
const processes = await listCudaProcesses(JSON.parse(options) as CudaOptions)
const target = processes.find((one) => one.pid === Number(pid))
if (target === undefined) throw new Error(`no CUDA process ${pid}`)
if (verb === 'move') await target.moveTo(gpu)
else if (verb === 'resume') await target.resume()
else await target.park()
console.log('done')

// How much host memory parking and resuming a process takes of ours: `cuda-memory.mjs <pid>`. Counted is what the kernel
// gets back when our processes end (Private_* of smaps_rollup), over what this process had before it loaded the package.
// Text pages that are shared with the application, which runs the same Node, are nobody's addition. Prints JSON, in KiB.
import { readFileSync } from 'node:fs'

const privateKiB = (pid) => {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    return [...rollup.matchAll(/^Private_\w+:\s+(\d+)/gm)].reduce((sum, [, value]) => sum + Number(value), 0)
  } catch {
    return 0
  }
}
const children = () => readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
const look = () => ({ own: privateKiB('self'), hosts: children().map(privateKiB) })
const total = ({ own, hosts }) => own + hosts.reduce((sum, value) => sum + value, 0)

look()
const before = look().own
const { listCudaProcesses } = await import('@egpu/driver-cuda')
let peak = look()
const timer = setInterval(() => {
  const now = look()
  if (total(now) > total(peak)) peak = now
}, 50)
const find = async () =>
  (await listCudaProcesses({ checkHostMemory: false })).find((one) => one.pid === Number(process.argv[2]))
await (await find()).park()
await (await find()).resume()
clearInterval(timer)
console.log(JSON.stringify({ before, peak, addedKiB: total(peak) - before }))
process.exit(0)

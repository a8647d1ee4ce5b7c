// What NVML sampling once a second costs, in a process that does nothing else: `cuda-sampling.mjs <samples> [bare]`.
// `bare` only wakes up once a second. Prints JSON; times are milliseconds of CPU, all threads counted.
import { readFileSync, readdirSync } from 'node:fs'
import { cudaDriver } from '@egpu/driver-cuda'

const samples = Number(process.argv[2])
const isBare = process.argv[3] === 'bare'
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const ownMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
const cpuMs = (pid) =>
  readdirSync(`/proc/${pid}/task`).reduce(
    (sum, task) => sum + Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1e6,
    0,
  )

const driver = cudaDriver()
const { devices } = await driver.list()
const { key } = devices[0]
const host = Number(readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')[0])
if (isBare) await driver.close()
// Until compilers and collectors are done with what happened before.
for (let warmUp = 0; warmUp < 20; warmUp += 1) {
  if (!isBare) await driver.health.sample(key)
  await sleep(1_000)
}
const [own, theirs, from] = [ownMs(), isBare ? 0 : cpuMs(host), performance.now()]
for (let sample = 0; sample < samples; sample += 1) {
  if (!isBare) await driver.health.sample(key)
  await sleep(1_000)
}
const wallMs = performance.now() - from
console.log(JSON.stringify({ samples, wallMs, ownMs: ownMs() - own, hostMs: isBare ? 0 : cpuMs(host) - theirs }))
process.exit(0)

// What test/device/cuda.sh runs. Each part is tried and noted by itself, so that one that fails hides no other.
import { spawn } from 'node:child_process'
import { readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { cudaDriver, cudaGuest, detectCudaRuntime, listCudaProcesses, recoverCudaProcesses } from '@egpu/driver-cuda'
import { Cuda } from './node_modules/@egpu/driver-cuda/src/native/cuda.js'

const home = fileURLToPath(new URL('.', import.meta.url))
const options = { checkHostMemory: false }
const results = { date: new Date().toISOString(), node: process.version, parts: {} }
const save = () => writeFileSync(`${process.env.OUT}/cuda.json`, `${JSON.stringify(results, undefined, 2)}\n`)
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const startedAt = performance.now()
/** Later parts are skipped rather than cut off. */
const mostMs = 450_000
const SAMPLES = Number(process.env.EGPU_SAMPLES ?? 20)

async function part(name, work) {
  if (performance.now() - startedAt > mostMs) return void (results.parts[name] = { skipped: 'out of time' })
  const from = performance.now()
  try {
    results.parts[name] = { ...(await work()), seconds: (performance.now() - from) / 1_000 }
  } catch (error) {
    results.parts[name] = { error: String(error), code: error?.code, stack: error?.stack }
  }
  console.log(name, JSON.stringify(results.parts[name]).slice(0, 1_500))
  save()
}

const victims = []
async function start(...args) {
  const child = spawn('python3', [`${home}/victim.py`, ...args.map(String)], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = []
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop()
    lines.push(...parts)
  })
  const closed = new Promise((resolve) => child.once('close', resolve))
  const victim = { pid: child.pid, lines, closed, child }
  victims.push(victim)
  for (let waited = 0; !lines.some((line) => line.startsWith('step 3 ')); waited += 100) {
    if (waited > 120_000 || child.exitCode !== null) throw new Error(`the victim did not start: ${lines.join(' | ')}`)
    await sleep(100)
  }
  return victim
}

const computed = (lines) => lines.filter((line) => /^(step|ballast) /.test(line))

/** Ends it and compares what it printed with an undisturbed run of as many steps. */
async function compare(victim, gib) {
  victim.child.kill('SIGTERM')
  await Promise.race([victim.closed, sleep(60_000)])
  const output = computed(victim.lines)
  const steps = output.filter((line) => line.startsWith('step')).length
  const reference = spawn('python3', [`${home}/victim.py`, gib, steps].map(String), {
    env: { ...process.env, VICTIM_SLEEP: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  reference.stdout.setEncoding('utf8').on('data', (more) => (text += more))
  await new Promise((resolve) => reference.once('close', resolve))
  const expected = computed(text.split('\n'))
  return { steps, identical: expected.length === output.length && expected.every((line, at) => line === output[at]) }
}

async function find(pid) {
  const found = (await listCudaProcesses(options)).find((one) => one.pid === pid)
  if (found === undefined) throw new Error(`process ${pid} is not listed`)
  return found
}

const read = (path) => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
const kilobytes = (pid, field) =>
  Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN)
const hosts = () =>
  readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter((pid) => pid !== '' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('host.js'))

function deviceNodes(pid) {
  const nodes = {}
  for (const fd of readdirSync(`/proc/${pid}/fd`)) {
    try {
      const path = readlinkSync(`/proc/${pid}/fd/${fd}`)
      if (path.startsWith('/dev/nvidia')) nodes[path] = (nodes[path] ?? 0) + 1
    } catch {}
  }
  return nodes
}

function mappings(pid) {
  const bytes = {}
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, from, to, permissions, path] = /^([\da-f]+)-([\da-f]+) (\S+).* (\/dev\/nvidia\S*)/.exec(line) ?? []
    if (path === undefined) continue
    const size = Number(BigInt(`0x${to}`) - BigInt(`0x${from}`))
    const key = `${path} ${permissions} ${size}`
    bytes[key] = (bytes[key] ?? 0) + 1
  }
  return bytes
}

const driver = cudaDriver()
const watching = new AbortController()
const events = []
void (async () => {
  for await (const event of driver.watch({ signal: watching.signal })) events.push({ at: Date.now(), ...event })
})().catch((error) => events.push({ error: String(error) }))

const { devices } = await driver.list()
const uuids = devices.map(({ key }) => key)
const used = async (uuid) => (await driver.health.sample(uuid)).memoryUsedBytes
const idle = {}

await part('identity', async () => {
  for (const uuid of uuids) idle[uuid] = await used(uuid)
  const details = await Promise.all(uuids.map((uuid) => driver.details(uuid)))
  const version = read('/proc/driver/nvidia/version')?.split('\n')[0]
  results.driver = version
  return { devices, details, version, runtime: await detectCudaRuntime(), probe: await driver.probe() }
})

await part('nvmlSampling', async () => {
  const hostPid = hosts()[0]
  const ticks = () => {
    const fields = readFileSync(`/proc/${hostPid}/schedstat`, 'utf8').split(' ')
    return Number(fields[0]) / 1e6
  }
  // schedstat is of the main thread, which makes the calls; the event thread waits in the driver.
  for (let warmUp = 0; warmUp < 50; warmUp += 1) await driver.health.sample(uuids[0])
  const [own, host] = [process.cpuUsage(), ticks()]
  const from = performance.now()
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    await driver.health.sample(uuids[0])
    await sleep(1_000)
  }
  const wall = performance.now() - from
  const mine = process.cpuUsage(own)
  const ownMs = (mine.user + mine.system) / 1_000
  const hostMs = ticks() - host
  return { samples: SAMPLES, wallMs: wall, ownMs, hostMs, shareOfCore: (ownMs + hostMs) / wall }
})

await part('parkAndResume', async () => {
  const victim = await start(9, 0)
  const target = await find(victim.pid)
  const before = { nodes: deviceNodes(victim.pid), mappings: mappings(victim.pid), used: await used(uuids[0]) }
  const ownBefore = kilobytes('self', 'VmRSS')
  const progress = []
  const from = performance.now()
  const parked = await target.park({ onProgress: (one) => progress.push({ ...one, at: performance.now() - from }) })
  const parkMs = performance.now() - from
  const whileParked = { nodes: deviceNodes(victim.pid), used: await used(uuids[0]), steps: victim.lines.length }
  await sleep(1_000)
  whileParked.stepsAfterASecond = victim.lines.length
  whileParked.listed = (await find(victim.pid)).state
  const again = performance.now()
  const resumed = await (
    await find(victim.pid)
  ).resume({
    onProgress: (one) => progress.push({ ...one, at: performance.now() - from }),
  })
  const resumeMs = performance.now() - again
  const hostPeaks = hosts().map((pid) => ({ peak: kilobytes(pid, 'VmHWM'), anonymous: kilobytes(pid, 'RssAnon') }))
  const ownAfter = kilobytes('self', 'VmRSS')
  const comparison = await compare(victim, 9)
  return {
    before,
    parked,
    parkMs,
    whileParked,
    resumed,
    resumeMs,
    progress,
    hostPeaks,
    ownBefore,
    ownAfter,
    comparison,
  }
})

await part('processTree', async () => {
  const victim = await start(1, 0, 'pair')
  const target = await find(victim.pid)
  const parked = await target.park()
  const states = (await listCudaProcesses(options)).map(({ pid, state, group }) => ({ pid, state, group }))
  const resumed = await (await find(victim.pid)).resume()
  return { group: target.group, states, parked, resumed, comparison: await compare(victim, 1) }
})

for (const trait of ['ipc', 'uvm']) {
  await part(`refused-${trait}`, async () => {
    const victim = await start(0.5, 0, trait)
    const target = await find(victim.pid)
    const before = { checkpointable: target.checkpointable, group: target.group, mappings: mappings(victim.pid) }
    const outcome = await target.park().then(
      (report) => ({ parked: report }),
      (error) => ({ code: error.code, message: error.message }),
    )
    const after = await find(victim.pid).catch((error) => ({ state: String(error) }))
    if (outcome.parked !== undefined) await (await find(victim.pid)).resume()
    const lines = victim.lines.length
    await sleep(2_000)
    const goesOn = victim.lines.length > lines
    const comparison = goesOn ? await compare(victim, 0.5) : undefined
    if (!goesOn) process.kill(-victim.pid, 'SIGKILL')
    return {
      before,
      outcome,
      stateAfter: after.state,
      goesOn,
      comparison,
      recovery: await recoverCudaProcesses(options),
    }
  })
}

if (uuids.length > 1) {
  await part('moves', async () => {
    const base = Object.fromEntries(await Promise.all(uuids.map(async (uuid) => [uuid, await used(uuid)])))
    const victim = await start(4, 0)
    const moves = []
    for (let move = 0; move < 10; move += 1) {
      const target = await find(victim.pid)
      const from = target.memory[0].uuid
      const to = uuids.find((uuid) => uuid !== from)
      const at = performance.now()
      const report = await target.moveTo(to)
      const totalMs = performance.now() - at
      const driverMs = report.steps.reduce((sum, { ms }) => sum + ms, 0)
      const now = await find(victim.pid)
      moves.push({
        from,
        to,
        totalMs,
        driverMs,
        pauseMs: report.pauseMs,
        addedMs: report.pauseMs - driverMs,
        steps: report.steps,
        leftBytes: (await used(from)) - base[from],
        arrived: now.memory.map(({ uuid }) => uuid),
        nodes: deviceNodes(victim.pid),
      })
      await sleep(200)
    }
    return { moves, comparison: await compare(victim, 4) }
  })

  await part('wrongMappingThenRight', async () => {
    const victim = await start(0.5, 0)
    const { pid } = victim
    const cuda = new Cuda('libcuda.so.1')
    const bytes = (uuid) => Buffer.from(uuid.replace(/^GPU-/, '').replaceAll('-', ''), 'hex')
    const [a, b] = uuids.map(bytes)
    const rest = uuids.slice(2).flatMap((uuid) => [bytes(uuid), bytes(uuid)])
    const seen = { init: cuda.initialize(), lock: cuda.lock(pid, 10_000), checkpoint: cuda.checkpoint(pid) }
    seen.onePair = cuda.restore(pid, Buffer.concat([a, b]))
    seen.stateAfter = cuda.state(pid)
    seen.unlockTooEarly = cuda.unlock(pid)
    seen.permutation = cuda.restore(pid, Buffer.concat([a, b, b, a, ...rest]))
    seen.unlock = cuda.unlock(pid)
    seen.state = cuda.state(pid)
    return { seen, comparison: await compare(victim, 0.5) }
  })

  await part('guest', async () => {
    const victim = await start(1, 0)
    const from = (await find(victim.pid)).memory[0].uuid
    const guest = cudaGuest({ ...options, driver })
    const device = { id: 'gpu', identity: { uuid: from } }
    const left = await guest.leave(device, { signal: AbortSignal.timeout(60_000) })
    const holders = hosts().map((pid) => deviceNodes(pid))
    const nodes = deviceNodes(victim.pid)
    guest.stay(device)
    const now = (await find(victim.pid)).memory
    return { from, left, hostNodesAfterLeaving: holders, victimNodes: nodes, now, comparison: await compare(victim, 1) }
  })
}

const moments = ['before-checkpoint', 'during-checkpoint', 'after-checkpoint', 'during-restore', 'after-restore']
for (const moment of moments) {
  await part(`killed-${moment}`, async () => {
    const victim = await start(2, 0)
    const from = (await find(victim.pid)).memory[0].uuid
    const to = uuids.find((uuid) => uuid !== from) ?? ''
    const controller = spawn(process.execPath, [`${home}/controller.mjs`, String(victim.pid), moment, to], {
      stdio: 'inherit',
    })
    const endedBy = await new Promise((resolve) => controller.once('close', (code, signal) => resolve(signal ?? code)))
    const stateThen = (await find(victim.pid).catch(() => ({ state: undefined }))).state
    const recovery = await recoverCudaProcesses(options)
    const stateNow = (await find(victim.pid)).state
    return { endedBy, stateThen, recovery, stateNow, comparison: await compare(victim, 2) }
  })
}

await part('atTheEnd', async () => {
  const memory = Object.fromEntries(
    await Promise.all(uuids.map(async (uuid) => [uuid, (await used(uuid)) - idle[uuid]])),
  )
  return {
    aboveIdle: memory,
    findings: (await driver.list()).findings,
    events: events.map(({ type, at, error }) => ({ type, at, error })),
  }
})
watching.abort()
await driver.close()
for (const { pid } of victims) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {}
}
save()
console.log('done in', Math.round((performance.now() - startedAt) / 1_000), 's')
process.exit(0)

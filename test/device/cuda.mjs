// What test/device/cuda.sh runs. Each part is tried and noted by itself, so that one that fails hides no other.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { driverCompliance } from '@egpu/core/testing'
import {
  cudaDriver,
  cudaGuest,
  detectCudaRuntime,
  listCudaProcesses,
  recoverCudaProcesses,
  runMovable,
} from '@egpu/driver-cuda'
import { linuxDriver } from '@egpu/driver-linux'
import { Cuda } from './node_modules/@egpu/driver-cuda/src/native/cuda.js'

const home = fileURLToPath(new URL('.', import.meta.url))
const options = { checkHostMemory: false }
const results = { date: new Date().toISOString(), node: process.version, parts: {} }
const save = () => writeFileSync(`${process.env.OUT}/cuda.json`, `${JSON.stringify(results, undefined, 2)}\n`)
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const startedAt = performance.now()
/** Later parts are skipped rather than cut off. */
const mostMs = 300_000
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
/** PyTorch takes seconds to start, so some are started ahead of time. */
const ahead = new Map()
function prepare(...args) {
  ahead.set(
    args.join(),
    launch(args, {}).catch((error) => error),
  )
}
async function start(...args) {
  const prepared = await ahead.get(args.join())
  ahead.delete(args.join())
  if (prepared instanceof Error) throw prepared
  return prepared ?? (await launch(args, {}))
}
async function launch(args, environment) {
  const child = spawn('python3', [`${home}/victim.py`, ...args.map(String)], {
    detached: true,
    env: { ...process.env, ...environment },
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

/** Comparisons go on beside the next parts. */
const comparisons = []

/** Ends it and compares what it printed with an undisturbed run of as many steps; the answer is there at the end. */
function compare(victim, gib) {
  const comparison = {}
  comparisons.push(compared(victim, gib).then((answer) => Object.assign(comparison, answer)))
  return comparison
}

async function compared(victim, gib) {
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
  await once(reference, 'close')
  const expected = computed(text.split('\n'))
  return { steps, identical: expected.length === output.length && expected.every((line, at) => line === output[at]) }
}

/** Another script of ours, and the JSON it printed. */
async function script(name, ...args) {
  const child = spawn(process.execPath, [`${home}/${name}`, ...args.map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (more) => (text += more))
  await once(child, 'close')
  return JSON.parse(text)
}

/** A Python program of ours and the lines it prints. */
function python(name, ...args) {
  const child = spawn('python3', [`${home}/${name}`, ...args], { detached: true, stdio: ['pipe', 'pipe', 'inherit'] })
  victims.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    child,
    pid: child.pid,
    next: async () => (await lines.next()).value,
    end: () => process.kill(-child.pid, 'SIGKILL'),
  }
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
  const [sampling, bare] = await Promise.all([
    script('cuda-sampling.mjs', SAMPLES),
    script('cuda-sampling.mjs', SAMPLES, 'bare'),
  ])
  return { ...sampling, bare }
})

await part('compliance', async () => {
  const rules = []
  let theme = ''
  const runner = {
    describe: (name, body) => {
      theme = name
      body()
    },
    it: (name, body) => rules.push({ name: `${theme}: ${name}`, body }),
  }
  const skipped = new Error('skipped')
  driverCompliance(runner, async () => {
    const one = cudaDriver()
    return { driver: one, [Symbol.asyncDispose]: () => one.close() }
  })
  const [passed, failed, skippedRules] = [[], [], []]
  for (const { name, body } of rules) {
    const context = {
      skip: () => {
        throw skipped
      },
    }
    await body(context).then(
      () => passed.push(name),
      (error) => (error === skipped ? skippedRules.push(name) : failed.push({ name, message: String(error) })),
    )
  }
  return { passed: passed.length, skipped: skippedRules.length, failed }
})
for (const args of [
  [9, 0],
  [4, 0],
])
  prepare(...args)

await part('parkAndResume', async () => {
  const victim = await start(9, 0)
  const target = await find(victim.pid)
  const before = { nodes: deviceNodes(victim.pid), mappings: mappings(victim.pid), used: await used(uuids[0]) }
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
  const comparison = compare(victim, 9)
  return {
    before,
    parked,
    parkMs,
    whileParked,
    resumed,
    resumeMs,
    progress,
    comparison,
  }
})

await part('processTree', async () => {
  const victim = await start(1, 0, 'pair')
  const target = await find(victim.pid)
  const parked = await target.park()
  const states = (await listCudaProcesses(options)).map(({ pid, state, group }) => ({ pid, state, group }))
  const resumed = await (await find(victim.pid)).resume()
  return { group: target.group, states, parked, resumed, comparison: compare(victim, 1) }
})

for (const trait of ['ipc', 'uvm']) {
  await part(`refused-${trait}`, async () => {
    const victim = await start(0.5, 0, trait)
    const target = await find(victim.pid)
    const outcome = await target.park().then(
      (report) => ({ parked: report }),
      (error) => ({ code: error.code, message: error.message }),
    )
    const members = (await listCudaProcesses(options)).filter(({ pid }) => target.group.includes(pid))
    const lines = victim.lines.length
    await sleep(1_000)
    const goesOn = victim.lines.length > lines
    const states = members.map(({ pid, state, checkpointable }) => ({ pid, state, checkpointable }))
    return { outcome, states, goesOn, comparison: compare(victim, 0.5) }
  })
}

for (const kind of ['memory', 'handle']) {
  await part(`refused-shared-${kind}`, async () => {
    const pair = python('cuda-ipc.py', kind)
    const [, exporter, importer] = (await pair.next()).split(' ')
    const answers = []
    for (const pid of [exporter, importer].map(Number)) {
      const target = await find(pid)
      const outcome = await target.park().then(
        () => 'parked',
        (error) => error.code,
      )
      answers.push({ checkpointable: target.checkpointable, outcome, state: (await find(pid)).state })
    }
    pair.child.stdin.write('\n')
    const check = await pair.next()
    pair.end()
    return { exporter: answers[0], importer: answers[1], check }
  })
}

await part('noRoomToResume', async () => {
  const victim = await start(0.5, 0)
  await (await find(victim.pid)).park()
  const filler = python('cuda-fill.py')
  const full = await filler.next()
  const refused = await (await find(victim.pid)).resume().then(
    () => 'resumed',
    (error) => ({ code: error.code, message: error.message }),
  )
  const { state } = await find(victim.pid)
  filler.end()
  await once(filler.child, 'close')
  const resumed = await (await find(victim.pid)).resume()
  return { full, refused, state, resumed, comparison: compare(victim, 0.5) }
})

if (uuids.length > 1) {
  // Memory of the GPUs is compared below, so nobody else may use them.
  await Promise.all(comparisons)
  await part('moves', async () => {
    const victim = await start(4, 0)
    const memory = await script('cuda-memory.mjs', victim.pid)
    const own = (await find(victim.pid)).memory[0].bytes
    const base = Object.fromEntries(
      await Promise.all(uuids.map(async (uuid, index) => [uuid, (await used(uuid)) - (index === 0 ? own : 0)])),
    )
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
    return { moves, memory, comparison: compare(victim, 4) }
  })

  for (const sees of ['one', 'all']) {
    await part(`guest-of-a-program-that-sees-${sees}`, async () => {
      const victim = await launch([1, 0], sees === 'one' ? { CUDA_VISIBLE_DEVICES: '0' } : {})
      const from = (await find(victim.pid)).memory[0].uuid
      const guest = cudaGuest({ ...options, driver })
      const address = devices.find(({ key }) => key === from).identity.pciAddress
      const device = { id: 'gpu', identity: { uuid: from } }
      const left = await guest.leave(device, { signal: AbortSignal.timeout(60_000) })
      const nodes = deviceNodes(victim.pid)
      const ours = hosts().map((pid) => deviceNodes(pid))
      const linux = linuxDriver()
      const gpu = (await linux.list()).devices.find(({ identity }) => identity.pciAddress === address)
      const { holders } = await linux.safeRemoval.plan(gpu.key)
      await linux.close()
      const { opens, memory, state } = await find(victim.pid)
      guest.stay(device)
      await guest.settled()
      const back = (await find(victim.pid)).state
      return { from, left, nodes, opens, memory, state, ours, holders, back, comparison: compare(victim, 1) }
    })
  }

  await part('nccl', async () => {
    const answers = {}
    for (const way of ['asUsual', 'runMovable']) {
      const path = `${process.env.OUT}/nccl.txt`
      const stdio = ['ignore', openSync(path, 'w'), 'inherit']
      const file = `${home}/cuda-nccl.py`
      const pid = await new Promise((resolve) => {
        if (way === 'asUsual') resolve(spawn('python3', [file], { detached: true, stdio }).pid)
        else void runMovable('python3', [file], { stdio, onStart: resolve }).catch(() => undefined)
      })
      victims.push({ pid })
      const ranks = async () => (await listCudaProcesses(options)).filter(({ group }) => group.length > 1)
      const lines = () => readFileSync(path, 'utf8').trim().split('\n')
      for (let waited = 0; lines().length < 3 && waited < 80; waited += 1) await sleep(500)
      const [first] = await ranks()
      const { checkpointable, group } = first
      const outcome = await first.park().then(
        ({ pids }) => ({ parked: pids }),
        (error) => ({ code: error.code, message: error.message }),
      )
      const resumed = outcome.parked && (await (await ranks())[0].resume()).pids
      const then = lines().length
      await sleep(2_000)
      const states = (await ranks()).map(({ state }) => state)
      const goesOn = lines().length > then
      answers[way] = { checkpointable, group, outcome, resumed, states, goesOn, last: lines().at(-1) }
      process.kill(-pid, 'SIGKILL')
    }
    return answers
  })

  // Opens the GPUs in this very process, so it comes after everything that looks at who holds them.
  await part('wrongMappingThenRight', async () => {
    const victim = await start(0.5, 0)
    const { pid } = victim
    const cuda = new Cuda('libcuda.so.1')
    const bytes = (uuid) => Buffer.from(uuid.replace(/^GPU-/, '').replaceAll('-', ''), 'hex')
    const [a, b] = uuids.map(bytes)
    const rest = uuids.slice(2).flatMap((uuid) => [bytes(uuid), bytes(uuid)])
    const seen = {
      init: await cuda.initialize(),
      lock: await cuda.lock(pid, 10_000),
      checkpoint: await cuda.checkpoint(pid),
    }
    seen.onePair = await cuda.restore(pid, Buffer.concat([a, b]))
    seen.stateAfter = await cuda.state(pid)
    seen.unlockTooEarly = await cuda.unlock(pid)
    seen.permutation = await cuda.restore(pid, Buffer.concat([a, b, b, a, ...rest]))
    seen.unlock = await cuda.unlock(pid)
    seen.state = await cuda.state(pid)
    return { seen, comparison: compare(victim, 0.5) }
  })
}

const moments = [
  'before-lock',
  'before-checkpoint',
  'during-checkpoint',
  'before-restore',
  'during-restore',
  'before-unlock',
  'after-unlock',
]
await part('kills', async () => {
  const victim = await start(2, 0)
  for (const moment of moments) {
    await part(`killed-${moment}`, async () => {
      const from = (await find(victim.pid)).memory[0].uuid
      const to = uuids.find((uuid) => uuid !== from) ?? ''
      const controller = spawn(process.execPath, [`${home}/controller.mjs`, String(victim.pid), moment, to], {
        stdio: 'inherit',
      })
      const endedBy = await new Promise((resolve) =>
        controller.once('close', (code, signal) => resolve(signal ?? code)),
      )
      const stateThen = (await find(victim.pid).catch(() => ({ state: undefined }))).state
      const lines = victim.lines.length
      const recovery = await recoverCudaProcesses(options)
      await sleep(500)
      return {
        endedBy,
        stateThen,
        recovery,
        stateNow: (await find(victim.pid)).state,
        goesOn: victim.lines.length > lines,
      }
    })
  }
  return { comparison: compare(victim, 2) }
})

await Promise.all(comparisons)
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

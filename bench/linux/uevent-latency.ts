import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { kernelSource } from '../../packages/driver-linux/src/watch/netlink-source.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

/** A device of every Linux machine that does not mind a synthetic event. */
const trigger = '/sys/class/mem/null/uevent'
const devpath = '/devices/virtual/mem/null'
const perBlock = 200
const blocks = 4

/** From writing a device's `uevent` file to the listener: ours, a bare blocking `recv` loop, a `udevadm` child. */
export async function measure(): Promise<Figure[]> {
  await using hand = await startHand()
  const ours: number[] = []
  const bare: number[] = []
  // In turns, so that a busy machine is busy for both.
  for (let block = 0; block < blocks; block++) {
    ours.push(...(await measureOurs(hand)))
    bare.push(...(await measureBare(hand)))
  }
  const [p50, bareP50] = [percentile(ours, 0.5), percentile(bare, 0.5)]
  const share = await raceUdevadm(hand)
  return [
    {
      figure: 'uevent to listener',
      value: p50,
      unit: 'ms p50',
      against: `bare koffi recv loop: ${bareP50.toFixed(3)} ms p50`,
      ratio: p50 / bareP50,
      bar: '<= 1.5 x',
      pass: p50 <= bareP50 * 1.5,
    },
    { figure: 'uevent to listener, slowest hundredth', value: percentile(ours, 0.99), unit: 'ms p99' },
    {
      figure: 'events heard before the line of a udevadm monitor child',
      value: share * 100,
      unit: '%',
      against: 'udevadm monitor, same events, same process',
      bar: '>= 95 %',
      pass: share >= 0.95,
    },
  ]
}

async function measureOurs(hand: Hand): Promise<number[]> {
  let heard: (() => void) | undefined
  await using _ = await kernelSource((message) => {
    if (message.type === 'uevent' && message.event.devpath === devpath) heard?.()
  })
  const taken = await samples(hand, (listener) => {
    heard = listener
  })
  return taken
}

async function measureBare(hand: Hand): Promise<number[]> {
  const stop = new Int32Array(new SharedArrayBuffer(4))
  const koffi = createRequire(new URL('../../packages/driver-linux/package.json', import.meta.url)).resolve('koffi')
  const worker = new Worker(bareLoop, { eval: true, workerData: { koffi, stop } })
  await new Promise((resolve) => worker.once('message', resolve))
  let heard: (() => void) | undefined
  worker.on('message', (text: string) => {
    if (text.includes(devpath)) heard?.()
  })
  const taken = await samples(hand, (listener) => {
    heard = listener
  })
  Atomics.store(stop, 0, 1)
  const ended = new Promise((resolve) => worker.once('exit', resolve))
  hand.trigger() // lets the blocking call return
  await ended
  return taken
}

/** The least that a thread can do: block in `recv`, hand on what came. */
const bareLoop = `
  const { parentPort, workerData: { koffi: path, stop } } = require('node:worker_threads')
  const koffi = require(path)
  const libc = koffi.load(null)
  const recv = libc.func('intptr_t recv(int, void *, size_t, int)')
  const fd = libc.func('int socket(int, int, int)')(16, 3, 15)
  const address = Buffer.alloc(12)
  address.writeUInt16LE(16, 0)
  address.writeUInt32LE(1, 8)
  if (libc.func('int bind(int, const void *, uint32_t)')(fd, address, 12) < 0) throw new Error('bind failed')
  parentPort.postMessage('listening')
  const buffer = Buffer.alloc(16384)
  while (Atomics.load(stop, 0) === 0) {
    const size = Number(recv(fd, buffer, buffer.length, 0))
    if (size > 0) parentPort.postMessage(buffer.toString('latin1', 0, size))
  }
  libc.func('int close(int)')(fd)
  parentPort.close()`

async function samples(hand: Hand, listen: (heard: () => void) => void): Promise<number[]> {
  const taken: number[] = []
  for (let round = 0; round < perBlock; round++) {
    const heard = new Promise<bigint>((resolve) => listen(() => resolve(process.hrtime.bigint())))
    hand.trigger()
    const heardAt = await heard
    taken.push(Number(heardAt - hand.sentAt()) / 1e6)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  return taken
}

/** Causes events from a thread of its own, so that the listening one is idle when they come, as with real ones. */
interface Hand extends AsyncDisposable {
  trigger(): void
  /** When the last one was caused, on the clock of `process.hrtime`. */
  sentAt(): bigint
}

async function startHand(): Promise<Hand> {
  const [go, sentAt] = [new Int32Array(new SharedArrayBuffer(4)), new BigInt64Array(new SharedArrayBuffer(8))]
  const worker = new Worker(handLoop, { eval: true, workerData: { trigger, go, sentAt } })
  await new Promise((resolve) => worker.once('message', resolve))
  const wake = (value: number): void => {
    Atomics.store(go, 0, value)
    Atomics.notify(go, 0)
  }
  return {
    trigger: () => wake(1),
    sentAt: () => Atomics.load(sentAt, 0),
    [Symbol.asyncDispose]: async () => {
      const ended = new Promise((resolve) => worker.once('exit', resolve))
      wake(2)
      await ended
    },
  }
}

const handLoop = `
  const { openSync, writeSync } = require('node:fs')
  const { parentPort, workerData: { trigger, go, sentAt } } = require('node:worker_threads')
  const file = openSync(trigger, 'w')
  parentPort.postMessage('ready')
  for (;;) {
    Atomics.wait(go, 0, 0)
    if (Atomics.exchange(go, 0, 0) === 2) break
    Atomics.store(sentAt, 0, process.hrtime.bigint())
    writeSync(file, 'change', 0)
  }
  parentPort.close()`

/**
 * Both hear the same events in this process; the share that we hear first. Ours is the parsed event in the listener,
 * theirs the raw line of `udevadm monitor` in the pipe, parsed by nobody. The kernel serves the younger subscriber first,
 * so they take turns at being that.
 */
async function raceUdevadm(hand: Hand): Promise<number> {
  const rounds = [
    ...(await race(hand, [listenOurs, listenUdevadm])),
    ...(await race(hand, [listenUdevadm, listenOurs])),
  ]
  return rounds.filter(([ours, theirs]) => ours < theirs).length / rounds.length
}

type Side = 'ours' | 'udevadm'
/** Starts to listen, tells of every event, and returns how to stop. */
type Listen = (heard: (side: Side) => void) => Promise<() => Promise<void>>

const listenOurs: Listen = async (heard) => {
  const source = await kernelSource((message) => {
    if (message.type === 'uevent' && message.event.devpath === devpath) heard('ours')
  })
  return () => source.close()
}

/** As people run it, without options. Its line for an event of the kernel: `KERNEL[12.345678] change /devices/… (mem)`. */
const listenUdevadm: Listen = async (heard) => {
  const child = spawn('udevadm', ['monitor'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  let heading = ''
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.stdout.setEncoding('latin1').on('data', (text: string) => {
      for (const line of text.split('\n')) if (line.startsWith('KERNEL[') && line.includes(devpath)) heard('udevadm')
      heading = heading.slice(0, 1000) + text
      if (heading.includes('\n\n')) resolve()
    })
  })
  return () => {
    child.kill('SIGKILL')
    return ended
  }
}

/** When we and udevadm heard each event. */
async function race(hand: Hand, order: readonly Listen[]): Promise<(readonly [ours: number, theirs: number])[]> {
  const heard: Record<Side, number | undefined> = { ours: undefined, udevadm: undefined }
  const stops: (() => Promise<void>)[] = []
  for (const listen of order) stops.push(await listen((side) => (heard[side] ??= performance.now())))
  const both: (readonly [number, number])[] = []
  for (let round = 0; round < perBlock; round++) {
    heard.ours = heard.udevadm = undefined
    hand.trigger()
    // An event at a time, so that each line is that event's.
    for (let wait = 0; wait < 200 && (heard.ours === undefined || heard.udevadm === undefined); wait++) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    if (heard.ours !== undefined && heard.udevadm !== undefined) both.push([heard.ours, heard.udevadm])
  }
  await Promise.all(stops.map((stop) => stop()))
  if (both.length < perBlock / 2) throw new Error(`udevadm heard only ${both.length} of ${perBlock} events`)
  return both
}

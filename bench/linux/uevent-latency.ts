import { Worker } from 'node:worker_threads'
import { createRequire } from 'node:module'
import { kernelSource } from '../../packages/driver-linux/src/watch/netlink-source.ts'
import type { OpenUeventSource, SourceListener, UeventSource } from '../../packages/driver-linux/src/watch/source.ts'
import { udevadmSource } from '../../packages/driver-linux/src/watch/udevadm-source.ts'
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
      figure: 'events heard before a udevadm monitor child',
      value: share * 100,
      unit: '%',
      against: 'udevadm monitor --kernel, same events',
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

/** Both hear the same events; the share that we hear first. The kernel serves the younger subscriber first: turns. */
async function raceUdevadm(hand: Hand): Promise<number> {
  const first = await race(hand, [kernelSource, udevadmSource()])
  const second = await race(hand, [udevadmSource(), kernelSource])
  const before = [...first, ...second].filter(([ours, theirs]) => ours < theirs)
  return before.length / (first.length + second.length)
}

/** When we and udevadm heard each event. */
async function race(
  hand: Hand,
  order: readonly OpenUeventSource[],
): Promise<(readonly [ours: number, theirs: number])[]> {
  const heard = { kernel: new Map<number, number>(), udevadm: new Map<number, number>() }
  const sources: UeventSource[] = []
  for (const open of order) {
    const kind = open === kernelSource ? 'kernel' : 'udevadm'
    const listener: SourceListener = (message) => {
      if (message.type !== 'uevent' || message.event.devpath !== devpath) return
      if (message.event.seqnum !== undefined) heard[kind].set(message.event.seqnum, performance.now())
    }
    sources.push(await open(listener))
  }
  for (let round = 0; round < perBlock; round++) {
    hand.trigger()
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await new Promise((resolve) => setTimeout(resolve, 500))
  await Promise.all(sources.map((source) => source.close()))
  const both = [...heard.kernel].flatMap(([seqnum, ours]) => {
    const theirs = heard.udevadm.get(seqnum)
    return theirs === undefined ? [] : [[ours, theirs] as const]
  })
  if (both.length < perBlock / 2) throw new Error(`udevadm heard only ${both.length} of ${perBlock} events`)
  return both
}

import { spawn } from 'node:child_process'
import { linuxDriver } from '../../packages/driver-linux/src/driver.ts'
import { netlinkSource } from '../../packages/driver-linux/src/watch/netlink-source.ts'
import type { Figure } from '../figure.ts'

const events = 10_000
/** The kernel doubles it, and one event with its bookkeeping takes most of that. */
const tinyBufferBytes = 2304

/** 10,000 events in a burst with a receive buffer that holds one or two: how many full looks, and is the end right? */
export async function measure(): Promise<Figure[]> {
  await using driver = linuxDriver({
    eventSource: netlinkSource('kernel', { receiveBufferBytes: tinyBufferBytes }),
    safetyRescanMs: 600_000,
  })
  const stop = new AbortController()
  const watch = driver.watch({ signal: stop.signal })[Symbol.asyncIterator]()
  await watch.next()
  const resyncs: { readonly atMs: number; readonly keys: string }[] = []
  const reading = (async () => {
    for (;;) {
      const { value, done } = await watch.next()
      if (done === true) return
      if (value.type !== 'resync') continue
      const keys = value.snapshot.devices.map(({ key }) => key).join()
      resyncs.push({ atMs: performance.now(), keys })
    }
  })()
  await burst()
  const endedAtMs = performance.now()
  await new Promise((resolve) => setTimeout(resolve, 3000))
  stop.abort()
  await reading
  const listed = (await driver.list()).devices.map(({ key }) => key).join()
  const last = resyncs.at(-1)
  return [
    {
      figure: 'resyncs after a burst of 10,000 events with a tiny buffer',
      value: resyncs.length,
      unit: 'resyncs',
      against: 'one',
      ratio: resyncs.length,
      bar: '= 1, final state right',
      pass: resyncs.length === 1 && last?.keys === listed,
    },
    { figure: 'end of the burst to the resync', value: (last?.atMs ?? Number.NaN) - endedAtMs, unit: 'ms' },
  ]
}

async function burst(): Promise<void> {
  const loop = `i=0; while [ $i -lt ${events} ]; do echo change > /sys/class/mem/null/uevent; i=$((i+1)); done`
  const shell = spawn('/bin/sh', ['-c', loop], { stdio: 'ignore' })
  await new Promise((resolve) => shell.once('exit', resolve))
}

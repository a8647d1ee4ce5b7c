// What the tests outside can ask the SDK inside for.
import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import koffi from 'koffi'
import { linuxDriver, netlinkSource } from '@egpu/driver-linux'
import { runCompliance } from './compliance.mjs'

export function methods({ send }) {
  const driver = linuxDriver({ safetyRescanMs: 600_000 })
  const watches = new Map()
  const asked = new Map()

  /** Asks for a hand outside and waits until it is done. */
  function ask(hand) {
    return new Promise((resolve) => {
      const id = `${hand}-${Math.random()}`
      asked.set(id, resolve)
      send({ event: 'hand', hand, id })
    })
  }

  /** Starts a watch and sends everything it yields; answers once the first resync came. */
  async function watch(name, options = {}) {
    const { receiveBufferBytes } = options
    // The same driver that removes a card has to know that its going is no surprise.
    const watched =
      receiveBufferBytes === undefined
        ? driver
        : linuxDriver({ safetyRescanMs: 600_000, eventSource: netlinkSource('kernel', { receiveBufferBytes }) })
    const stop = new AbortController()
    watches.set(name, stop)
    const events = watched.watch({ signal: stop.signal })[Symbol.asyncIterator]()
    const first = await events.next()
    void (async () => {
      try {
        for (;;) {
          const { value, done } = await events.next()
          if (done) return
          send({ event: 'driver', watch: name, atMs: performance.now(), driverEvent: value })
        }
      } catch (error) {
        send({ event: 'crash', error: String(error?.stack ?? error) })
      }
    })()
    return { first: first.value, source: watched.eventSource }
  }

  return {
    list: () => driver.list(),
    probe: () => driver.probe(),
    watch,
    unwatch: (name) => {
      watches.get(name)?.abort()
      watches.delete(name)
    },
    sample: (key) => driver.health.sample(key),
    planRemoval: (key) => driver.safeRemoval.plan(key),
    runRemoval: async (key) => driver.safeRemoval.run(await driver.safeRemoval.plan(key)),
    planPassthrough: (key) => driver.passthrough.plan(key),
    bindPassthrough: async (key) => driver.passthrough.bind(await driver.passthrough.plan(key)),
    releasePassthrough: (key) => driver.passthrough.release(key),
    memory: () => {
      globalThis.gc()
      globalThis.gc()
      return process.memoryUsage()
    },
    /** Starts a process that keeps a file open, as the user with this id; answers its pid. */
    hold: async (path, uid) => {
      const child = spawn('/bin/sh', ['-c', `exec 3<>${path}; exec sleep 10000`], { uid })
      for (let tries = 0; tries < 500 && !existsSync(`/proc/${child.pid}/fd/3`); tries++) await sleep(20)
      return child.pid
    },
    /** Causes events from another process, which a tiny receive buffer cannot take. */
    burst: (count) => {
      const loop = `i=0; while [ $i -lt ${count} ]; do echo change > /sys/class/mem/null/uevent; i=$((i+1)); done`
      const shell = spawn('/bin/sh', ['-c', loop])
      return new Promise((resolve) => shell.once('exit', resolve))
    },
    /** VFIO_GROUP_GET_STATUS: whether every device of the group is bound so that a guest can have it. */
    isViable: (group) => {
      const ioctl = koffi.load(null).func('int ioctl(int, unsigned long, void *)')
      const file = openSync(`/dev/vfio/${group}`, 'r+')
      try {
        const status = Buffer.alloc(8)
        status.writeUInt32LE(8, 0)
        if (ioctl(file, 0x3b00 + 103, status) < 0) throw new Error(`VFIO_GROUP_GET_STATUS: errno ${koffi.errno()}`)
        return (status.readUInt32LE(4) & 1) === 1
      } finally {
        closeSync(file)
      }
    },
    compliance: () => {
      void runCompliance(ask).then((results) => send({ event: 'compliance', results }))
    },
    handDone: (id) => {
      asked.get(id)?.()
      asked.delete(id)
    },
  }
}

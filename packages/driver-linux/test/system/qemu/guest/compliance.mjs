// The compliance suite of @egpu/core on the live guest. The hands are outside: they are asked for over the agent's line.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { driverCompliance } from '@egpu/core/testing'
import { linuxDriver, netlinkSource } from '@egpu/driver-linux'

/** Runs every rule, one after another, and answers how each went. `ask` has a hand outside do something. */
export async function runCompliance(ask) {
  const tests = []
  const path = []
  const runner = {
    describe(name, body) {
      path.push(name)
      body()
      path.pop()
    },
    it(name, body) {
      tests.push({ name: [...path.slice(1), name].join(': '), body })
    },
  }
  driverCompliance(runner, () => rig(ask), { patienceMs: 60_000 })
  const results = []
  for (const { name, body } of tests) {
    let skipped
    const context = {
      skip: (reason) => {
        skipped = reason
      },
    }
    try {
      await body(context)
      results.push(skipped === undefined ? { name, outcome: 'passed' } : { name, outcome: 'skipped', reason: skipped })
    } catch (error) {
      results.push({ name, outcome: 'failed', reason: String(error?.stack ?? error) })
    }
  }
  return results
}

async function rig(ask) {
  await ask('plug')
  const driver = linuxDriver({
    safetyRescanMs: 600_000,
    eventSource: netlinkSource('kernel', { receiveBufferBytes: 8 * 1024 }),
  })
  const external = ({ devices }) =>
    devices.find(({ verdict, stage }) => verdict?.conclusion === 'external' && stage === 'ready')
  let subject = external(await driver.list())
  for (let tries = 0; subject === undefined && tries < 300; tries++) {
    await sleep(200)
    subject = external(await driver.list())
  }
  return {
    driver,
    subject: subject?.key,
    unusable: linuxDriver({ sysfsRoot: '/nonexistent' }),
    hands: {
      plug: () => ask('plug'),
      unplug: () => ask('unplug'),
      hold: () => hold(subject),
      overflow,
    },
    [Symbol.asyncDispose]: () => driver.close(),
  }
}

/** A process that keeps the display node of the device open. */
async function hold({ identity }) {
  const card = readdirSync(`/sys/bus/pci/devices/${identity.pciAddress}/drm`).find((name) => name.startsWith('card'))
  const child = spawn('/bin/sh', ['-c', `exec 3<>/dev/dri/${card}; exec sleep 1000`])
  for (let tries = 0; tries < 200 && !existsSync(`/proc/${child.pid}/fd/3`); tries++) await sleep(20)
  return () => child.kill('SIGKILL')
}

/** More events, faster than a small buffer takes. */
async function overflow() {
  const loop = 'i=0; while [ $i -lt 3000 ]; do echo change > /sys/class/mem/null/uevent; i=$((i+1)); done'
  const shells = [1, 2, 3, 4].map(() => spawn('/bin/sh', ['-c', loop]))
  await Promise.all(shells.map((shell) => new Promise((resolve) => shell.once('exit', resolve))))
}

import assert from 'node:assert/strict'
import type { RuntimeCapability } from '../../driver/driver.ts'
import { EGpuErrorCode } from '../../error.ts'
import type { ComputeTarget, OpenTarget, TargetLoss } from '../../types/target.ts'
import type { Bench } from '../bench.ts'
import { Skip } from '../bench.ts'
import { refuses } from '../refusal.ts'
import type { Theme } from '../rule.ts'

export const runtimeTheme: Theme = {
  name: 'runtime loss',
  rules: [
    {
      name: 'offers targets with ids of their own, in declared runtimes, on listed devices',
      async check(bench) {
        const targets = await bench.soon('runtime.targets()', bench.capability('runtime').targets())
        const { devices } = await bench.soon('list()', bench.driver.list())
        const keys = new Set(devices.map((device) => device.key))
        assert.equal(new Set(targets.map((target) => target.id)).size, targets.length, 'target ids are unique')
        for (const { id, runtime, deviceId } of targets) {
          assert(bench.driver.capabilities.runtimes.includes(runtime), `${id}: ${runtime} is declared`)
          assert(deviceId === undefined || keys.has(deviceId), `${id}: device ${deviceId} is listed`)
        }
      },
    },
    {
      name: 'keeps a target open until it is closed, which is no loss, and closes it twice',
      async check(bench) {
        const { target } = await openSubject(bench)
        assert.equal(await state(target), 'open')
        assert(Number.isInteger(target.epoch) && target.epoch >= 0, `epoch ${target.epoch} counts incarnations`)
        await bench.soon('close()', target.close())
        assert.equal((await bench.soon('lost', target.lost)).reason, 'destroyed')
        await bench.soon('the second close()', target.close())
        await bench.soon('disposing of a closed target', Promise.resolve(target[Symbol.asyncDispose]()))
      },
    },
    {
      name: 'tells of the loss of an idle target',
      async check(bench) {
        const unplug = bench.hand('unplug')
        const { target } = await openSubject(bench)
        await unplug()
        checkLoss(await bench.soon('lost', target.lost))
        await bench.soon('close() of a lost target', target.close())
      },
    },
    {
      name: 'tells of the loss of a busy target, and its work fails with EGPU_DEVICE_LOST',
      async check(bench) {
        const [unplug, work] = [bench.hand('unplug'), bench.hand('work')]
        const { target } = await openSubject(bench)
        const call = work(target)
        const refused = refuses('work under way', call, EGpuErrorCode.DeviceLost)
        await unplug()
        checkLoss(await bench.soon('lost', target.lost))
        await bench.soon('work on a lost target', refused)
        await bench.soon('close() of a lost target', target.close())
      },
    },
    {
      name: 'offers and opens nothing on a device that is gone',
      async check(bench) {
        const unplug = bench.hand('unplug')
        const { target, runtime } = await openSubject(bench)
        await unplug()
        await bench.soon('lost', target.lost)
        const offers = await bench.soon('runtime.targets()', runtime.targets())
        assert(!offers.some((offer) => offer.id === target.target.id), `${target.target.id} is gone and still offered`)
        const gone = [EGpuErrorCode.DeviceNotFound, EGpuErrorCode.DeviceLost] as const
        const call = runtime.open(target.target.id)
        await bench.soon('runtime.open()', refuses('opening a target that is gone', call, ...gone))
      },
    },
    {
      name: 'opens a returned device as a later epoch, and keeps the old handle dead',
      async check(bench) {
        const [unplug, plug] = [bench.hand('unplug'), bench.hand('plug')]
        const { target: before } = await openSubject(bench)
        await unplug()
        await bench.soon('lost', before.lost)
        await plug()
        const after = await reopen(bench, before.target)
        assert(after.epoch > before.epoch, `epoch ${after.epoch} after the loss is above ${before.epoch}`)
        assert.equal(await state(before), 'lost')
        assert.equal(await state(after), 'open')
        await bench.soon('close()', after.close())
      },
    },
    {
      name: 'tells of the loss when the device stops answering',
      async check(bench) {
        const wedge = bench.hand('wedge')
        const { target } = await openSubject(bench)
        await wedge()
        checkLoss(await bench.soon('lost', target.lost))
        await bench.soon('close() of a wedged target', target.close())
      },
    },
  ],
}

async function openSubject(bench: Bench): Promise<{ target: OpenTarget; runtime: RuntimeCapability }> {
  const runtime = bench.capability('runtime')
  const { key } = await bench.subject()
  const targets = await bench.soon('runtime.targets()', runtime.targets())
  const offer = targets.find((target) => target.deviceId === key)
  if (offer === undefined) throw new Skip(`${key} has no compute target`)
  return { target: await bench.soon('runtime.open()', runtime.open(offer.id)), runtime }
}

/** Waits until the device can be opened again. */
async function reopen(bench: Bench, { id }: ComputeTarget): Promise<OpenTarget> {
  const runtime = bench.capability('runtime')
  const deadline = Date.now() + bench.patienceMs
  while (!(await bench.soon('runtime.targets()', runtime.targets())).some((target) => target.id === id)) {
    assert(Date.now() < deadline, `${id} is not offered again after the re-plug`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  return bench.soon('runtime.open()', runtime.open(id))
}

function checkLoss(loss: TargetLoss): void {
  assert.notEqual(loss.reason, 'destroyed', 'nobody closed it')
  assert.match(loss.message, /\S+\s+\S+/, 'the message says what happened')
  assert(Number.isFinite(loss.atMs), 'atMs says when')
}

/** Whether `lost` has resolved, without waiting for it. */
async function state(target: OpenTarget): Promise<'open' | 'lost'> {
  const turn = new Promise<'open'>((resolve) => {
    setTimeout(() => resolve('open'), 0)
  })
  return Promise.race([target.lost.then(() => 'lost' as const), turn])
}

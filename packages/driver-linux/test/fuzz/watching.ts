import type { DriverEvent } from '@egpu/core/driver'
import { Arrivals } from '../../src/enclosure/arrivals.ts'
import { JoinMemory } from '../../src/enclosure/memory.ts'
import { snapshotOf } from '../../src/observe.ts'
import { surveyOf } from '../../src/survey.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { reduce } from '../../src/watch/reduce.ts'
import type { SourceMessage } from '../../src/watch/source.ts'
import { initialState, nextDueMs } from '../../src/watch/state.ts'
import type { View, WatchMessage, WatchState } from '../../src/watch/state.ts'
import { fromProperties } from '../../src/watch/uevent.ts'
import { viewOf } from '../../src/watch/view.ts'
import { memorySysfs } from '../machines/tree.ts'
import type { Tree } from '../machines/tree.ts'
import { faultsOf, subjects } from './machines.ts'
import type { Subject } from './machines.ts'
import { mutateText, mutateTree } from './mutate.ts'
import { seeded } from './random.ts'
import type { Random } from './random.ts'

const stepsPerWatch = 25

/**
 * Watches machines whose trees and messages go wrong all the while, in virtual time; the first story that does not hold
 * together, if any. At the end the machine is whole again, and what was told must be what is there.
 */
export async function fuzzWatches(count: number, seed: number): Promise<unknown> {
  const random = seeded(seed)
  const all = await subjects()
  for (let round = 0; round < count; round += 1) {
    const subject = all[random.below(all.length)] as Subject
    const watch = new FuzzedWatch(subject, random)
    try {
      const fault = await watch.run()
      if (fault !== undefined) return { round, name: subject.name, fault, story: watch.story }
    } catch (error) {
      return { round, name: subject.name, error, story: watch.story }
    }
  }
  return undefined
}

class FuzzedWatch {
  readonly story: string[] = []
  readonly #subject: Subject
  readonly #random: Random
  readonly #memory = new JoinMemory()
  readonly #arrivals = new Arrivals()
  /** What a listener knows: devices that are there, as it was told. */
  #present = new Set<string>()
  #fault: string | undefined
  #tree: Tree
  #state: WatchState = initialState()
  #nowMs = 0
  #seqnum = 1000

  constructor(subject: Subject, random: Random) {
    this.#subject = subject
    this.#random = random
    this.#tree = subject.tree
  }

  async run(): Promise<string | undefined> {
    await this.#send({ type: 'resync', reason: 'started' })
    for (let step = 0; step < stepsPerWatch && this.#fault === undefined; step += 1) await this.#step()
    this.#tree = this.#subject.tree
    await this.#pass(20_000)
    await this.#send({ type: 'resync', reason: 'safety-rescan' })
    await this.#pass(20_000)
    const { snapshot } = await this.#look()
    const told = [...this.#present].sort().join()
    const there = snapshot.devices
      .map(({ key }) => key)
      .sort()
      .join()
    return this.#fault ?? (told === there ? undefined : `told ${told}, there is ${there}`)
  }

  async #step(): Promise<void> {
    const { tree, targets } = this.#subject
    switch (this.#random.below(8)) {
      case 0:
        this.#tree = mutateTree(this.#tree, targets, this.#random)
        return
      case 1:
        this.#tree = tree
        return
      case 2:
        return this.#pass(this.#random.below(12_000))
      case 3:
        return this.#source({ type: this.#random.below(2) === 0 ? 'overflow' : 'changed' })
      case 4: {
        const [key = 'nobody'] = this.#present
        return this.#send({ type: 'removal-expected', key, expected: this.#random.below(2) === 0 })
      }
      default: {
        const event = this.#event()
        if (event !== undefined) await this.#source({ type: 'uevent', event })
        return this.#pass(this.#random.below(100))
      }
    }
  }

  /** Something the kernel may say of a device of this machine, now and then garbled. */
  #event(): ReturnType<typeof fromProperties> {
    const links = [...this.#subject.tree.keys()].filter((path) =>
      /^bus\/(?:pci|thunderbolt)\/devices\/[^/]+$/.test(path),
    )
    const path = this.#pick(links)
    const entry = this.#subject.tree.get(path)
    const target = typeof entry === 'object' ? entry.to.replace(/^(?:\.\.\/)+/, '/') : `/${path}`
    const isPci = path.startsWith('bus/pci/')
    const action = this.#pick(['add', 'remove', 'change', 'bind', 'unbind'])
    this.#seqnum += this.#random.below(10) === 0 ? this.#random.below(5) : 1
    const properties: Record<string, string> = {
      ACTION: action,
      DEVPATH: this.#random.below(5) === 0 && isPci ? `${target}/drm/card1` : target,
      SUBSYSTEM: isPci ? 'pci' : 'thunderbolt',
      SEQNUM: String(this.#seqnum),
      PCI_SLOT_NAME: path.slice(path.lastIndexOf('/') + 1),
      PCI_CLASS: this.#pick(['30000', '40300', '60400']),
      DEVTYPE: isPci ? '' : this.#pick(['thunderbolt_device', 'thunderbolt_domain', 'thunderbolt_retimer']),
    }
    if (properties['DEVPATH']?.includes('/drm/') === true)
      Object.assign(properties, { SUBSYSTEM: 'drm', DEVTYPE: 'drm_minor' })
    if (this.#random.below(6) === 0) properties['WEDGED'] = this.#pick(['rebind', 'none', 'bus-reset,unknown'])
    if (this.#random.below(6) === 0) {
      properties['TUNNEL_EVENT'] = this.#pick(['activated', 'deactivated', 'changed'])
      properties['TUNNEL_DETAILS'] = this.#pick([
        '0:5 <-> 1:9 (PCI)',
        '1:3 <-> 301:9 (PCI)',
        '(PCI)',
        '0:6 <-> 1:2 (DP)',
      ])
    }
    if (this.#random.below(8) === 0) {
      const name = this.#pick(Object.keys(properties))
      properties[name] = mutateText(properties[name] ?? '', this.#random)
    }
    return fromProperties(new Map(Object.entries(properties)))
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#random.below(from.length)] as T
  }

  async #source(message: SourceMessage): Promise<void> {
    if (message.type === 'uevent') {
      const { action, devpath, seqnum } = message.event
      this.story.push(`${this.#nowMs} heard ${action} ${devpath.slice(0, 200)} ${seqnum}`)
      this.#arrivals.note(message.event, this.#nowMs)
    } else {
      this.story.push(`${this.#nowMs} ${message.type}`)
      this.#arrivals.forget()
    }
    await this.#send({ type: 'source', message })
  }

  async #send(message: WatchMessage): Promise<void> {
    const { state, effects } = reduce(this.#state, message, this.#nowMs)
    this.#state = state
    for (const effect of effects) {
      if (effect.do === 'emit') this.#tell(effect.event)
      else if (effect.do === 'look') await this.#send({ type: 'looked', view: await this.#look() })
      else if (this.#random.below(2) === 0) await this.#send({ type: 'absent', keys: effect.keys })
    }
  }

  async #look(): Promise<View> {
    const seqnum = this.#random.below(3) === 0 ? this.#seqnum : undefined
    const hints = { ...this.#memory.recall(), ...this.#arrivals.hints() }
    const survey = surveyOf(await readTopology(memorySysfs(this.#tree)), { hints })
    this.#memory.keep(survey.gpus)
    const snapshot = snapshotOf(survey)
    const [fault] = faultsOf(snapshot)
    this.#fault ??= fault
    return viewOf(survey, snapshot, seqnum)
  }

  async #pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    for (let turns = 0; ; turns += 1) {
      const dueMs = nextDueMs(this.#state)
      if (dueMs === undefined || dueMs > untilMs) break
      if (turns > 10_000) throw new Error(`no end of things that are due at ${dueMs}`)
      this.#nowMs = Math.max(this.#nowMs, dueMs)
      await this.#send({ type: 'time' })
    }
    this.#nowMs = untilMs
  }

  /** A listener that keeps account: nothing may happen to a device that is not there. */
  #tell(event: DriverEvent): void {
    const key = event.type === 'device-observed' ? event.device.key : 'key' in event ? event.key : undefined
    this.story.push(`${this.#nowMs} told ${event.type} ${key ?? ''}`)
    switch (event.type) {
      case 'resync':
        this.#present = new Set(event.snapshot.devices.map((device) => device.key))
        return
      case 'device-observed':
        this.#present.add(event.device.key)
        return
      case 'device-leaving':
      case 'device-lost':
      case 'device-wedged':
        if (!this.#present.has(event.key)) this.#fault ??= `${event.type} of ${event.key}, which is not there`
        return
      case 'device-removed':
        if (!this.#present.delete(event.key)) this.#fault ??= `${event.key} removed twice`
    }
  }
}

import type { Enclosure } from '@egpu/core'
import type { DeviceObservation, DriverEvent } from '@egpu/core/driver'
import { reduce } from '../../src/watch/reduce.ts'
import type { SourceMessage } from '../../src/watch/source.ts'
import { initialState, nextDueMs } from '../../src/watch/state.ts'
import type { View, WatchMessage, WatchState, WatchTimes } from '../../src/watch/state.ts'
import { fromProperties } from '../../src/watch/uevent.ts'
import type { Properties } from './messages.ts'

/** A GPU in a box on the first port of a machine with an integrated controller (case 1 of the recorded machines). */
export const rootPort = '/devices/pci0000:00/0000:00:07.0'
export const gpuPath: string = `${rootPort}/0000:02:00.0/0000:03:00.0/0000:04:00.0`
export const routerPath = '/devices/pci0000:00/0000:00:0d.2/domain0/0-0/0-1'
export const box: Enclosure = { id: 'efcdab89-6745-2301-ffff-ffffffffffff', name: 'AORUS RTX5090 AI BOX' }

export function gpu(more: Partial<DeviceObservation> = {}): DeviceObservation {
  return {
    key: `${box.id}/0`,
    identity: { pciAddress: '0000:04:00.0' },
    gpu: { vendorId: 0x10de, deviceId: 0x2b85 },
    stage: 'ready',
    kernelDriver: 'nvidia',
    enclosureId: box.id,
    verdict: { conclusion: 'external', confidence: 0.95, transport: 'usb4', evidence: [] },
    ...more,
  }
}

export interface Machine {
  readonly devices?: readonly (readonly [DeviceObservation, string])[]
  readonly boxes?: readonly (readonly [Enclosure, string])[]
  readonly seqnum?: number | undefined
}

export function viewOfMachine({ devices = [], boxes = [], seqnum }: Machine): View {
  return {
    snapshot: { devices: devices.map(([device]) => device), enclosures: boxes.map(([one]) => one), findings: [] },
    devpaths: new Map(devices.map(([{ key }, path]) => [key, path])),
    routers: new Map(
      boxes.map(([{ id }, router]) => [
        router,
        { enclosureId: id, devices: devices.filter(([one]) => one.enclosureId === id).map(([{ key }]) => key) },
      ]),
    ),
    seqnum,
  }
}

/** The box and the GPU in it, running. */
export const plugged: Machine = { devices: [[gpu(), gpuPath]], boxes: [[box, '0-1']] }

/** Plays messages to the reducer in virtual time; a look sees `machine` as it is at that moment. */
export class Replay {
  machine: Machine
  readonly events: { readonly atMs: number; readonly event: DriverEvent }[] = []
  /** Keys that a presence check finds without card. */
  absent: readonly string[] = []
  looks = 0
  nowMs = 0
  #state: WatchState
  #seqnum = 1000

  constructor(machine: Machine, times: Partial<WatchTimes> = {}) {
    this.machine = machine
    this.#state = initialState(times)
    this.send({ type: 'resync', reason: 'started' })
  }

  /** An event of the kernel, numbered unless `SEQNUM` is given. */
  uevent(properties: Properties): void {
    this.#seqnum = Number(properties['SEQNUM'] ?? this.#seqnum + 1)
    const event = fromProperties(new Map(Object.entries({ SEQNUM: String(this.#seqnum), ...properties })))
    if (event === undefined) throw new Error('no event')
    this.source({ type: 'uevent', event })
  }

  source(message: SourceMessage): void {
    this.send({ type: 'source', message })
  }

  send(message: WatchMessage): void {
    const { state, effects } = reduce(this.#state, message, this.nowMs)
    this.#state = state
    for (const effect of effects) {
      if (effect.do === 'emit') this.events.push({ atMs: this.nowMs, event: effect.event })
      else if (effect.do === 'look') {
        this.looks++
        this.send({ type: 'looked', view: viewOfMachine(this.machine) })
      } else {
        const keys = effect.keys.filter((key) => this.absent.includes(key))
        if (keys.length > 0) this.send({ type: 'absent', keys })
      }
    }
  }

  /** Lets time pass, with everything that falls due on the way. */
  pass(ms: number): void {
    const untilMs = this.nowMs + ms
    for (;;) {
      const dueMs = nextDueMs(this.#state)
      if (dueMs === undefined || dueMs > untilMs) break
      this.nowMs = Math.max(this.nowMs, dueMs)
      this.send({ type: 'time' })
    }
    this.nowMs = untilMs
  }

  /** The types of the events since the last call, with the time each came at. */
  take(): string[] {
    return this.events.splice(0).map(({ atMs, event }) => `${atMs} ${event.type}`)
  }

  /** The events themselves, since the last call. */
  taken(): DriverEvent[] {
    return this.events.splice(0).map(({ event }) => event)
  }
}

export const retimer = (action: string): Properties => ({
  ACTION: action,
  DEVPATH: '/devices/pci0000:00/0000:00:0d.2/domain0/0-0/usb4_port1/0-0:1.1',
  SUBSYSTEM: 'thunderbolt',
  DEVTYPE: 'thunderbolt_retimer',
})

export const router = (action: string, more: Properties = {}): Properties => ({
  ACTION: action,
  DEVPATH: routerPath,
  SUBSYSTEM: 'thunderbolt',
  DEVTYPE: 'thunderbolt_device',
  ...more,
})

export const pci = (action: string, devpath: string = gpuPath, more: Properties = {}): Properties => ({
  ACTION: action,
  DEVPATH: devpath,
  SUBSYSTEM: 'pci',
  PCI_SLOT_NAME: devpath.slice(-12),
  ...more,
})

export const card = (action: string, devpath: string = gpuPath, more: Properties = {}): Properties => ({
  ACTION: action,
  DEVPATH: `${devpath}/drm/card1`,
  SUBSYSTEM: 'drm',
  DEVTYPE: 'drm_minor',
  ...more,
})

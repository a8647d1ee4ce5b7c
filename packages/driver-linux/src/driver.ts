import { abandonable, EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import type { DriverEvent, DriverSnapshot, EGpuDriver, EventQueue, ProbeResult } from '@egpu/core/driver'
import { Arrivals } from './enclosure/arrivals.ts'
import { JoinMemory } from './enclosure/memory.ts'
import { linuxHealth } from './health/index.ts'
import { snapshotOf } from './observe.ts'
import { defaultOverridesPath, loadOverrides } from './overrides-file.ts'
import type { LoadedOverrides } from './overrides-file.ts'
import { linuxPassthrough } from './passthrough/index.ts'
import type { Execute } from './removal/execute.ts'
import { linuxSafeRemoval } from './removal/index.ts'
import { surveyOf } from './survey.ts'
import type { Survey } from './survey.ts'
import { pciNames } from './pci-names.ts'
import type { PciNames } from './pci-names.ts'
import { openSysfs } from './sysfs/sysfs.ts'
import { readTopology } from './topology/read-topology.ts'
import { checkRecording } from './recording/check.ts'
import { recordedTree, type MachineRecording } from './recording/recording.ts'
import type { Topology } from './topology/types.ts'
import { usbFindings } from './usb/findings.ts'
import { boxesOf, UsbFallbacks } from './usb/index.ts'
import { listUsb } from './usb/list-usb.ts'
import type { ListUsb } from './usb/list-usb.ts'
import type { VerdictOverride } from './verdict/override.ts'
import { watchLinux } from './watch/index.ts'
import { pollSource } from './watch/poll-source.ts'
import type { OpenUeventSource } from './watch/source.ts'
import type { EventSourceStatus } from './watch/watch.ts'

export interface LinuxDriverOptions {
  /** `/sys`, or a directory recorded from another machine. */
  readonly sysfsRoot?: string | undefined
  /** A machine that `recordMachine` recorded, instead of this one. Nothing of it can be changed. */
  readonly recording?: MachineRecording | undefined
  /** `/proc`. With another `sysfsRoot` there is none unless given: two machines must not be mixed. */
  readonly procRoot?: string | undefined
  /**
   * What you know better than the verdict: a list, or the path of an override file. By default
   * `~/.config/egpu/overrides.json` for this machine, and nothing for a recorded one.
   */
  readonly overrides?: readonly VerdictOverride[] | string | undefined
  /** Also read what reaches into sleeping devices, such as their link speed. Wakes them. Off by default. */
  readonly wakeSuspended?: boolean | undefined
  /** Where names of PCI devices come from. By default the `pci.ids` of the distribution, if it has one. */
  readonly pciNames?: PciNames | undefined
  /**
   * Where `watch()` hears of changes, instead of the kernel and its fallbacks. A recorded machine is polled unless this
   * is given: the kernel speaks of another one.
   */
  readonly eventSource?: OpenUeventSource | undefined
  /** Between two looks at everything that no event asked for. 30 seconds by default. */
  readonly safetyRescanMs?: number | undefined
  readonly clock?: Clock | undefined
  /** What is on the USB bus; by default the `usb` package lists it for this machine, and nothing for a recorded one. */
  readonly listUsb?: ListUsb | undefined
  /** Carries out the steps of a plan; by default a child process does. */
  readonly execute?: Execute | undefined
}

export interface LinuxDriver extends EGpuDriver {
  /** Where the watch that began last gets its events from, and why not from a better place. */
  readonly eventSource: EventSourceStatus | undefined
}

/** The Linux driver: every GPU, box and Thunderbolt router of a machine from sysfs, without root, waking nothing. */
export function linuxDriver(options: LinuxDriverOptions = {}): LinuxDriver {
  if (options.recording !== undefined && options.sysfsRoot !== undefined) {
    throw new TypeError('linuxDriver takes a recording or a sysfsRoot, not both')
  }
  requireDirectory('sysfsRoot', options.sysfsRoot)
  requireDirectory('procRoot', options.procRoot)
  const recording = options.recording === undefined ? undefined : checkRecording(options.recording)
  // What is not in a recording must not be read from this machine instead.
  const sysfsRoot = options.sysfsRoot ?? (recording === undefined ? '/sys' : '/nowhere/recorded')
  const isThisMachine = options.sysfsRoot === undefined && recording === undefined
  const procRoot = options.procRoot ?? (isThisMachine ? '/proc' : undefined)
  const overrides = options.overrides ?? (isThisMachine ? defaultOverridesPath() : [])
  const sysfs = recording === undefined ? openSysfs(sysfsRoot) : recordedTree(recording.sysfs)
  const proc =
    recording === undefined ? (procRoot === undefined ? undefined : openSysfs(procRoot)) : recordedTree(recording.proc)
  const memory = new JoinMemory()
  const arrivals = new Arrivals()
  const names = options.pciNames ?? pciNames()
  const clock = options.clock ?? systemClock
  const usb =
    recording === undefined
      ? new UsbFallbacks(sysfsRoot, options.listUsb ?? (isThisMachine ? listUsb : async () => []))
      : { find: async ({ thunderbolt }: Topology) => usbFindings(recording.usb, boxesOf(thunderbolt)) }
  const queues = new Set<EventQueue<DriverEvent>>()
  const removalListeners = new Set<(key: string, expected: boolean) => void>()
  /** What running watches know to be dead, which no reading shows. */
  const dead = new Map<string, string>()
  let eventSource: EventSourceStatus | undefined
  let closed = false

  const look = async ({ signal }: AbortOptions): Promise<{ survey: Survey; snapshot: DriverSnapshot }> => {
    if (closed) throw new EGpuError(EGpuErrorCode.Closed, 'the linux driver was closed', { driver: 'linux' })
    const topology = await readTopology(sysfs, { signal, proc, wakeSuspended: options.wakeSuspended })
    const loaded: LoadedOverrides =
      typeof overrides === 'string' ? loadOverrides(overrides) : { overrides, findings: [] }
    const hints = { ...memory.recall(), ...arrivals.hints() }
    const survey: Survey = surveyOf(topology, { overrides: loaded.overrides, hints, names })
    memory.keep(survey.gpus)
    const snapshot = snapshotOf(survey)
    const findings = [...loaded.findings, ...snapshot.findings, ...(await usb.find(topology))]
    return { survey, snapshot: { ...snapshot, findings } }
  }

  const survey = async (lookOptions: AbortOptions): Promise<Survey> => (await look(lookOptions)).survey
  const changes = {
    sysfsRoot,
    procRoot,
    survey,
    execute: options.execute,
    onRemoval: (key: string, expected: boolean) => {
      for (const listener of removalListeners) listener(key, expected)
    },
  }

  const close = (): Promise<void> => {
    closed = true
    for (const queue of queues) queue.end()
    return Promise.resolve()
  }

  return {
    specVersion: 1,
    name: 'linux',
    capabilities: {
      hotplug: true,
      verdict: true,
      health: true,
      safeRemoval: true,
      passthrough: true,
      runtimes: [],
    },
    probe: ({ signal } = {}) => abandonable(Promise.resolve(probe(sysfsRoot, sysfs.list('bus/pci/devices'))), signal),
    list: async (listOptions = {}) => (await look(listOptions)).snapshot,
    watch({ signal }) {
      const queue = watchLinux(
        {
          sysfsRoot,
          procRoot,
          clock,
          survey: look,
          eventSource: options.eventSource ?? (isThisMachine ? undefined : pollSource({ sysfsRoot, clock })),
          safetyRescanMs: options.safetyRescanMs,
          onSource: (status) => {
            eventSource = status
          },
          onRemoval: (listener) => {
            removalListeners.add(listener)
            return () => void removalListeners.delete(listener)
          },
          onSourceMessage: (message, atMs) => {
            if (message.type === 'uevent') arrivals.note(message.event, atMs)
            else arrivals.forget()
          },
          onEvent: (event) => noteDeath(dead, event),
          onEnd: () => queues.delete(queue),
        },
        { signal },
      )
      if (closed) queue.end()
      else queues.add(queue)
      return queue
    },
    health: linuxHealth({ sysfsRoot, clock, survey, dead }),
    safeRemoval: linuxSafeRemoval(changes),
    passthrough: linuxPassthrough(changes),
    get eventSource() {
      return eventSource
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Keeps up with which devices a watch has declared dead. */
function noteDeath(dead: Map<string, string>, event: DriverEvent): void {
  if (event.type === 'device-wedged' || event.type === 'device-lost') dead.set(event.key, event.reason)
  if (event.type === 'device-removed') dead.delete(event.key)
  if (event.type === 'device-observed') dead.delete(event.device.key)
}

function requireDirectory(name: string, value: unknown): void {
  if (value === undefined || (typeof value === 'string' && value !== '')) return
  throw new TypeError(`${name} must be the path of a directory, got ${JSON.stringify(value)}`)
}

function probe(sysfsRoot: string, devices: readonly string[]): ProbeResult {
  if (devices.length > 0) return { usable: true }
  if (sysfsRoot === '/sys' && process.platform !== 'linux') {
    return { usable: false, reason: `this is ${process.platform}; the driver reads sysfs, which only Linux has` }
  }
  return {
    usable: false,
    reason: `${sysfsRoot}/bus/pci/devices is missing or empty: no PCI bus, or sysfs is not mounted`,
  }
}

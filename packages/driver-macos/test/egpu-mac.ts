import { setTimeout as sleep } from 'node:timers/promises'
import type { DriverEvent, EGpuDriver } from '@egpu/core/driver'
import { macosDriver } from '../src/index.ts'
import type { IoKitSourceOptions, MacosDriverOptions } from '../src/index.ts'
import { FakeMac } from './fake-iokit.ts'
import { appleMac, entry, findEntry, linkRegister, pci, tunnel } from './mac.ts'
import type { TreeNode } from './registry-tree.ts'

const uid = 0x8087b6dc08810300n
export const gpuKey = 'enclosure-0x8087b6dc08810300-gpu0'
export const enclosureId = '0x8087b6dc08810300'

const razer = {
  className: 'IOThunderboltSwitchIntelJHL9480',
  uid,
  vendor: 'Razer',
  model: 'Core X V2',
  version: 64,
  speed: 2,
  width: 2,
} as const

/** A machine with an RTX 4090 in a Core X V2 at its first receptacle, and hands to pull and plug its cable. */
export class EGpuMac {
  readonly mac: FakeMac
  readonly #pciParent: bigint
  readonly #lanePort: bigint
  #tunnelId: bigint
  #upstreamPortId: bigint
  #gpuId: bigint

  private constructor(mac: FakeMac, tree: TreeNode) {
    this.mac = mac
    this.#pciParent = findEntry(tree, (node) => node.name === 'IOPP').id
    this.#lanePort = findEntry(tree, (node) => node.name === 'IOThunderboltPort' && node.location === '1').id
    this.#tunnelId = 0n
    this.#upstreamPortId = 0n
    this.#gpuId = 0n
  }

  static async boot({ plugged = true }: { readonly plugged?: boolean } = {}): Promise<EGpuMac> {
    const tree = idleMac()
    const machine = new EGpuMac(await FakeMac.boot(tree), tree)
    machine.mac.set(machine.#lanePort, 'Current Link Speed', 2)
    machine.mac.set(machine.#lanePort, 'Current Link Width', 2)
    if (plugged) machine.plug()
    return machine
  }

  get gpuId(): bigint {
    return this.#gpuId
  }

  get tunnelId(): bigint {
    return this.#tunnelId
  }

  get routerPortId(): bigint {
    return this.#upstreamPortId
  }

  driver(options: MacosDriverOptions = {}, source: IoKitSourceOptions = {}): EGpuDriver {
    return macosDriver({ source: this.mac.source(source), settleMs: 10, rescanMs: 40, ...options })
  }

  /** Router first, then the tunnel: the order the kernel brings them up in. */
  plug(options: { readonly matched?: boolean } = {}): void {
    this.plugRouter()
    this.plugTunnel(options)
  }

  plugRouter(): void {
    const router = routerTree()
    this.#upstreamPortId = router.id
    this.mac.attach(this.#lanePort, router)
  }

  plugTunnel(options: { readonly matched?: boolean } = {}): void {
    const tree = tunnelTree()
    this.#tunnelId = tree.id
    this.#gpuId = findEntry(tree, (node) => node.name === 'display').id
    this.mac.attach(this.#pciParent, tree, options)
  }

  unplug(options: { readonly keepProperties?: boolean } = {}): void {
    this.unplugRouter(options)
    this.unplugTunnel(options)
  }

  unplugRouter(options: { readonly keepProperties?: boolean } = {}): void {
    this.mac.detach(this.#upstreamPortId, options)
  }

  unplugTunnel(options: { readonly keepProperties?: boolean } = {}): void {
    this.mac.detach(this.#tunnelId, options)
  }

  /** The driver of the GPU shows up below it. */
  attachExtension(bundleId = 'org.tinygrad.tinygpu.driver2'): void {
    this.mac.attach(this.#gpuId, entry('IOUserService', 'TinyGPU', undefined, { CFBundleIdentifier: bundleId }))
  }

  wedge(): void {
    this.mac.set(this.#gpuId, 'IOPCIDeviceDeadOnRestore', true)
  }

  /** More changes at one moment than the kernel keeps. */
  overflow(): void {
    const devices = Array.from({ length: 1100 }, (_, index) => entry('IOUSBHostDevice', `device${index}`, undefined))
    this.mac.attach(this.#lanePort, entry('IOUSBHostDevice', 'hub', undefined, {}, devices))
  }
}

export function idleMac(): TreeNode {
  return appleMac({ type: 7, boxes: [undefined, undefined], pciBehind: [[], []] })
}

function routerTree(): TreeNode {
  const mac = appleMac({ type: 7, boxes: [razer] })
  const lane = findEntry(mac, (node) => node.name === 'IOThunderboltPort' && node.location === '1')
  return lane.children[0] as TreeNode
}

function tunnelTree(): TreeNode {
  return tunnel({ guid: uid }, [
    pci({ vendor: 0x10de, device: 0x2684, class: 0x030000, tunnelled: true, link: linkRegister(4, 4) }),
    pci({ vendor: 0x10de, device: 0x22ba, class: 0x040300, tunnelled: true, location: '0,1' }),
  ])
}

/** Reads the events of a watch as they come. */
export class Events implements AsyncDisposable {
  readonly seen: DriverEvent[] = []
  readonly #arrivals = new WeakMap<DriverEvent, number>()
  readonly #end = new AbortController()
  readonly #reading: Promise<void>
  error: unknown

  constructor(driver: EGpuDriver) {
    this.#reading = this.#read(driver)
  }

  get types(): string[] {
    return this.seen.map((event) => event.type)
  }

  /** The first event from here on that fits; what came before it is forgotten. */
  async until(fits: (event: DriverEvent) => boolean, patienceMs = 5000): Promise<DriverEvent> {
    const deadline = Date.now() + patienceMs
    for (;;) {
      const index = this.seen.findIndex(fits)
      if (index !== -1) return this.seen.splice(0, index + 1).at(-1) as DriverEvent
      if (Date.now() > deadline) throw new Error(`not among ${JSON.stringify(this.types)}`)
      await sleep(2)
    }
  }

  /** When an event of this type came, on the clock of `performance.now()`. */
  async arrival(type: DriverEvent['type']): Promise<number> {
    const event = await this.untilType(type)
    return this.#arrivals.get(event) as number
  }

  async untilType(type: DriverEvent['type']): Promise<DriverEvent> {
    return this.until((event) => event.type === type)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort()
    await this.#reading
  }

  async #read(driver: EGpuDriver): Promise<void> {
    try {
      for await (const event of driver.watch({ signal: this.#end.signal })) {
        this.#arrivals.set(event, performance.now())
        this.seen.push(event)
      }
    } catch (error) {
      this.error = error
    }
  }
}

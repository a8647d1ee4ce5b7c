import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { cache } from './cache.ts'
import { buildImage } from './image.ts'
import { debianKernel } from './kernel.ts'
import { HarnessError, Vm } from './vm.ts'

/** The guest's root ports, by the QEMU id that devices are plugged into. */
export const ports = {
  /** Firmware calls it the external facing port of a USB4 host. */
  external: { id: 'external', address: '00:02.0', slot: 1 },
  /** The same port without that mark: what is behind it counts as built in. */
  internal: { id: 'internal', address: '00:03.0', slot: 40 },
  /** Two more plain ones, so that a slot can rest between two cards. */
  spare1: { id: 'spare1', address: '00:06.0', slot: 41 },
  spare2: { id: 'spare2', address: '00:07.0', slot: 42 },
} as const
export type Port = (typeof ports)[keyof typeof ports]

/** SeaBIOS finds room for one or two large windows; the kernel hands out the rest of what a window has. */
const roomy = 'bus-reserve=16,mem-reserve=256M,pref64-reserve=256M'
const small = 'bus-reserve=4,mem-reserve=64M'

const rootPort = ({ id, address, slot }: Port, room: string): string =>
  `-device pcie-root-port,id=${id},bus=pcie.0,addr=${address.slice(3)},chassis=${slot},slot=${slot},${room}`

export interface BootOptions {
  /** With an emulated Intel IOMMU, under which QEMU 7.2 crashes when a switch with something behind it is pulled. */
  readonly iommu: boolean
}

/** Boots a machine with an internal GPU, an external facing port and a plain port. */
export async function bootMachine({ iommu }: BootOptions): Promise<Machine> {
  const kernel = debianKernel()
  const devices = [
    '-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off',
    iommu ? '-device intel-iommu,intremap=on,caching-mode=on' : '',
    '-device VGA,id=igpu,bus=pcie.0,addr=1',
    rootPort(ports.external, roomy),
    rootPort(ports.internal, small),
    rootPort(ports.spare1, small),
    rootPort(ports.spare2, small),
  ]
  const vm = await Vm.boot({
    kernel: kernel.image,
    initrd: buildImage(kernel),
    machine: iommu ? 'q35,kernel-irqchip=split' : 'q35',
    append: iommu ? 'quiet intel_iommu=on' : 'quiet',
    args: ['-acpitable', `file=${externalPortTable()}`, ...devices.flatMap((one) => one.split(' ').filter(Boolean))],
  })
  return new Machine(vm)
}

function externalPortTable(): string {
  mkdirSync(cache, { recursive: true })
  const prefix = join(cache, 'external-port')
  const source = fileURLToPath(new URL('./acpi/external-port.dsl', import.meta.url))
  execFileSync('iasl', ['-p', prefix, source], { stdio: ['ignore', 'ignore', 'pipe'] })
  return `${prefix}.aml`
}

/** A card that comes sooner after another is ejected with it: pciehp is still busy with the slot. */
const slotRestMs = 3000

/** The hands that touch the cable. */
export class Machine implements AsyncDisposable {
  readonly vm: Vm
  readonly #yankedAtMs = new Map<string, number>()
  #plugs = 0

  constructor(vm: Vm) {
    this.vm = vm
  }

  /** One card with its sound function into a port, as a desktop GPU is. */
  async plugCard(port: Port, second: 'sound' | 'none' = 'sound'): Promise<void> {
    for (let tries = 0; tries < 3; tries++) {
      await this.#rest(port)
      const name = this.#name()
      await this.vm.frozen(async () => {
        const multifunction = second === 'sound'
        if (multifunction) {
          await this.vm.qmp('device_add', { driver: 'intel-hda', id: `${name}-sound`, bus: port.id, addr: '0.1' })
        }
        await this.vm.qmp('device_add', { driver: 'secondary-vga', id: name, bus: port.id, addr: '0.0', multifunction })
      })
      if (await this.#isAccepted(port)) return
      this.#yankedAtMs.set(port.id, Date.now())
    }
    throw new HarnessError(`QEMU's slot ${port.slot} ejects every card`)
  }

  /** A card and somebody else's device behind a bridge to conventional PCI, which no IOMMU can tell apart. */
  async plugShared(port: Port): Promise<void> {
    await this.#rest(port)
    const name = this.#name()
    await this.vm.frozen(async () => {
      await this.vm.qmp('device_add', { driver: 'pcie-pci-bridge', id: `${name}-bridge`, bus: port.id })
      await this.vm.qmp('device_add', { driver: 'secondary-vga', id: name, bus: `${name}-bridge`, addr: '1' })
      await this.vm.qmp('device_add', { driver: 'intel-hda', id: `${name}-other`, bus: `${name}-bridge`, addr: '2' })
    })
  }

  /** A whole box at once: a switch, a GPU with sound behind it, a second switch with another GPU. */
  async plugBox(port: Port): Promise<void> {
    await this.#rest(port)
    const name = this.#name()
    const add = (
      driver: string,
      id: string,
      bus: string,
      more: Readonly<Record<string, unknown>> = {},
    ): Promise<unknown> => this.vm.qmp('device_add', { driver, id: `${name}-${id}`, bus, ...more })
    await this.vm.frozen(async () => {
      await add('x3130-upstream', 'up1', port.id)
      await this.#hangBelow(`${name}-up1`, port.id)
      await add('xio3130-downstream', 'dn1', `${name}-up1`, { chassis: 2, slot: 2, addr: '1.0' })
      await add('xio3130-downstream', 'dn2', `${name}-up1`, { chassis: 3, slot: 3, addr: '2.0' })
      await add('intel-hda', 'hda', `${name}-dn1`, { addr: '0.1' })
      await add('secondary-vga', 'gpu1', `${name}-dn1`, { addr: '0.0', multifunction: true })
      await add('x3130-upstream', 'up2', `${name}-dn2`)
      await this.#hangBelow(`${name}-up2`, `${name}-dn2`)
      await add('xio3130-downstream', 'dn3', `${name}-up2`, { chassis: 4, slot: 4, addr: '0.0' })
      await add('secondary-vga', 'gpu2', `${name}-dn3`)
    })
  }

  /**
   * Pulls the cable: everything behind the port is gone at once. With the guest frozen, the port's Slot Control is set
   * to power and power indicator off, on which QEMU ejects all that is below and latches Presence Detect Changed; then
   * it is set back, so that the kernel finds a slot that is on and empty.
   */
  async yank(port: Port): Promise<void> {
    await this.vm.frozen(async () => {
      const saved = readBack(await this.vm.hmp('i /w 0xcf8'))
      const control = (await this.#pcieCapability(port.address)) + 0x18
      const before = await this.#config(port.address, control, 2)
      await this.#config(port.address, control, 2, before | 0x700)
      await this.#config(port.address, control, 2, before)
      await this.vm.hmp(`o /w 0xcf8 ${saved}`)
    })
    this.#yankedAtMs.set(port.id, Date.now())
  }

  /** Whether the guest's kernel sees a card in the port's slot. */
  async isPlugged({ slot }: Port): Promise<boolean> {
    return (await this.vm.sh(`cat /sys/bus/pci/slots/${slot}/adapter`)) === '1'
  }

  /** Pulls whatever is plugged in anywhere, and waits until the kernel has let go of it. */
  async empty(): Promise<void> {
    for (const port of Object.values(ports)) if (await this.isPlugged(port)) await this.yank(port)
    const count = "ls /sys/bus/pci/devices | grep -vc '^0000:00:' || true"
    while ((await this.vm.sh(count)) !== '0') await sleep(200)
  }

  /** Has a port report a PCI Express error: `COMP_TIME` is a completion timeout, not fatal. */
  async injectError(port: Port, error: string): Promise<void> {
    const answer = await this.vm.hmp(`pcie_aer_inject_error ${port.id} ${error}`)
    if (!answer.startsWith('OK')) throw new Error(`pcie_aer_inject_error: ${answer}`)
  }

  close(): Promise<void> {
    return this.vm.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Whether the kernel took the card: a slot that was still busy with the last one ejects the next. */
  async #isAccepted({ address, slot }: Port): Promise<boolean> {
    const bus = `/sys/bus/pci/devices/0000:${address}`
    for (let tries = 0; tries < 100; tries++) {
      const [power, found] = (
        await this.vm.sh(`cat /sys/bus/pci/slots/${slot}/power; ls -d ${bus}/0000:* 2>/dev/null | wc -l`)
      ).split('\n')
      if (power === '1' && found !== '0') return true
      await sleep(200)
    }
    return false
  }

  async #rest(port: Port): Promise<void> {
    const waitMs = (this.#yankedAtMs.get(port.id) ?? 0) + slotRestMs - Date.now()
    if (waitMs > 0) await sleep(waitMs)
  }

  #name(): string {
    return `plug${++this.#plugs}`
  }

  /** QEMU forgets to unplug what is below a switch unless the switch's own port is told who handles it. */
  async #hangBelow(upstream: string, port: string): Promise<void> {
    const path = `/machine/peripheral/${upstream}/${upstream}`
    await this.vm.qmp('qom-set', { path, property: 'hotplug-handler', value: `/machine/peripheral/${port}` })
  }

  /** Configuration space through the ports 0xcf8 and 0xcfc, as firmware reads it. */
  async #config(address: string, offset: number, size: 1 | 2, value?: number): Promise<number> {
    const [bus = 0, device = 0, fn = 0] = address.split(/[:.]/).map((part) => Number.parseInt(part, 16))
    const select = (0x80000000 | (bus << 16) | (device << 11) | (fn << 8) | (offset & 0xfc)) >>> 0
    await this.vm.hmp(`o /w 0xcf8 ${select}`)
    const unit = size === 1 ? 'b' : 'h'
    const data = 0xcfc + (offset & 3)
    if (value === undefined) return readBack(await this.vm.hmp(`i /${unit} ${data}`))
    await this.vm.hmp(`o /${unit} ${data} ${value}`)
    return value
  }

  async #pcieCapability(address: string): Promise<number> {
    for (let at = await this.#config(address, 0x34, 1); at !== 0; at = await this.#config(address, at + 1, 1)) {
      if ((await this.#config(address, at, 1)) === 0x10) return at
    }
    throw new Error(`no PCI Express capability at ${address}`)
  }
}

/** `portl[0x0cfc] = 0x12345678`. */
function readBack(answer: string): number {
  const value = Number.parseInt(answer.split('=')[1] ?? '', 16)
  if (Number.isNaN(value)) throw new Error(`QEMU's monitor answered ${answer}`)
  return value
}

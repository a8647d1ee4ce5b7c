import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { surveyOf } from '../../src/survey.ts'
import type { Survey } from '../../src/survey.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import type { Action } from '../../src/removal/moves.ts'
import { buildMachine } from '../machines/index.ts'
import type { Machine } from '../machines/machine.ts'
import type { Properties } from '../watch/messages.ts'

/** A recorded machine on disk on which plans can be run: the kernel's part of `remove` and `authorized` is played. */
export class FakeMachine implements Disposable {
  readonly sysfsRoot: string
  readonly procRoot: string
  /** What was done, as a person would type it. */
  readonly done: string[] = []
  /** Told what the kernel would say. */
  say: (properties: Properties) => void = () => {}
  /** Paths whose writing fails, with the kernel's answer. */
  readonly broken: Map<string, string> = new Map()
  /** The driver each function had before it was unbound. */
  readonly #drivers = new Map<string, string>()
  readonly #attic: string
  readonly #stashed: { readonly from: string; readonly at: string }[] = []
  readonly #built: ReturnType<typeof buildMachine>

  constructor(machine: Machine) {
    this.#built = buildMachine(machine)
    this.sysfsRoot = this.#built.sysfsRoot
    this.procRoot = this.#built.procRoot
    this.#attic = join(this.sysfsRoot, '../attic')
    mkdirSync(this.#attic)
    mkdirSync(this.procRoot, { recursive: true })
    for (const name of readdirSync(join(this.sysfsRoot, 'bus/pci/devices'))) this.#attributes(name)
  }

  /** Hangs a class device with a node below a function: `drm/card1` with `dri/card1`. */
  node(address: string, classPath: string, devname: string, number: string): void {
    const directory = join(this.#real(address), classPath)
    mkdirSync(directory, { recursive: true })
    const [major, minor] = number.split(':')
    writeFileSync(join(directory, 'uevent'), `MAJOR=${major}\nMINOR=${minor}\nDEVNAME=${devname}\n`)
  }

  /** Puts functions into an IOMMU group. */
  iommuGroup(group: number, addresses: readonly string[]): void {
    const devices = join(this.sysfsRoot, 'kernel/iommu_groups', String(group), 'devices')
    mkdirSync(devices, { recursive: true })
    for (const address of addresses) {
      symlinkSync(this.#real(address), join(devices, address))
      symlinkSync(join(this.sysfsRoot, 'kernel/iommu_groups', String(group)), join(this.#real(address), 'iommu_group'))
    }
  }

  process(pid: number, name: string, uid: number, files: readonly string[], maps: string = ''): void {
    const directory = join(this.procRoot, String(pid))
    mkdirSync(join(directory, 'fd'), { recursive: true })
    writeFileSync(join(directory, 'comm'), `${name}\n`)
    writeFileSync(join(directory, 'status'), `Name:\t${name}\nUid:\t${uid}\t${uid}\t${uid}\t${uid}\n`)
    writeFileSync(join(directory, 'maps'), maps)
    for (const [index, file] of files.entries()) symlinkSync(file, join(directory, 'fd', String(index)))
  }

  end(pid: number): void {
    rmSync(join(this.procRoot, String(pid)), { recursive: true })
  }

  survey = async (): Promise<Survey> => surveyOf(await readTopology(this.sysfsRoot))

  execute = async (action: Action): Promise<void> => {
    if (action.kind === 'run') {
      this.done.push(action.command.join(' '))
      return
    }
    const { path, value } = action
    const shown = path.slice(this.sysfsRoot.length)
    const refusal = this.broken.get(shown)
    if (refusal !== undefined) throw new Error(refusal)
    this.done.push(`${value} > ${shown}`)
    if (this.#bind(path, value)) return
    const removed = /\/bus\/pci\/devices\/([^/]+)\/remove$/.exec(path)?.[1]
    if (removed === undefined) writeFileSync(path, `${value}\n`)
    else this.take(removed)
  };

  [Symbol.dispose](): void {
    this.#built[Symbol.dispose]()
  }

  /** What the PCI core does for `unbind`, `bind` and `drivers_probe`. */
  #bind(path: string, value: string): boolean {
    const driver = join(this.#realIfAny(value), 'driver')
    if (path.endsWith('/unbind')) {
      const bound = basename(readlinkSync(driver))
      if (bound !== 'vfio-pci') this.#drivers.set(value, bound)
      this.#setDriver(value, undefined)
      return true
    }
    const named = /\/drivers\/([^/]+)\/bind$/.exec(path)?.[1]
    if (named === undefined && !path.endsWith('/drivers_probe')) return false
    const override = readFileSync(join(this.#realIfAny(value), 'driver_override'), 'utf8').trim()
    const own = this.#drivers.get(value)
    const target = named ?? (override === '' ? own : override)
    this.#setDriver(value, target)
    return true
  }

  /** The link and the line in `uevent`, which say the same. */
  #setDriver(address: string, driver: string | undefined): void {
    const device = this.#real(address)
    rmSync(join(device, 'driver'), { force: true })
    const lines = readFileSync(join(device, 'uevent'), 'utf8')
      .split('\n')
      .filter((line) => !line.startsWith('DRIVER='))
    if (driver !== undefined) {
      symlinkSync(`../drivers/${driver}`, join(device, 'driver'))
      lines.unshift(`DRIVER=${driver}`)
    }
    writeFileSync(join(device, 'uevent'), lines.join('\n'))
  }

  #realIfAny(address: string): string {
    return /^[\da-f]{4}:/.test(address) ? this.#real(address) : ''
  }

  /** Path below `/sys`, as events name it. */
  devpath(address: string): string {
    return this.#real(address).slice(this.sysfsRoot.length)
  }

  /** Takes a function, or a bridge and all that is below it, off the bus, as the kernel does: the deepest first. */
  take(address: string): void {
    const real = this.#real(address)
    const links = join(this.sysfsRoot, 'bus/pci/devices')
    const below = readdirSync(links).filter((name) => this.#real(name).startsWith(`${real}/`))
    for (const name of [...below.sort((a, b) => this.#real(b).length - this.#real(a).length), address]) {
      const devpath = this.#real(name).slice(this.sysfsRoot.length)
      const common = { SUBSYSTEM: 'pci', DEVPATH: devpath, PCI_SLOT_NAME: name }
      if (existsSync(join(this.#real(name), 'driver'))) this.say({ ...common, ACTION: 'unbind' })
      this.say({ ...common, ACTION: 'remove' })
      this.#stash(join(links, name))
    }
    this.#stash(real)
  }

  takeRouter(name: string): void {
    const link = join(this.sysfsRoot, 'bus/thunderbolt/devices', name)
    const real = join(this.sysfsRoot, 'bus/thunderbolt/devices', readlinkSync(link))
    const DEVPATH = real.slice(this.sysfsRoot.length)
    this.say({ ACTION: 'remove', SUBSYSTEM: 'thunderbolt', DEVTYPE: 'thunderbolt_device', DEVPATH })
    this.#stash(link)
    this.#stash(real)
  }

  /** Puts everything back that was taken, and says so: routers and bridges before what is behind them. */
  restore(): void {
    const back = this.#stashed.splice(0).reverse()
    for (const { from, at } of back) {
      mkdirSync(dirname(at), { recursive: true })
      renameSync(from, at)
    }
    for (const { at } of back) {
      const authorized = join(at, 'authorized')
      const DEVPATH = at.slice(this.sysfsRoot.length)
      const name = basename(at)
      if (existsSync(authorized)) {
        writeFileSync(authorized, '1\n')
        this.say({ ACTION: 'add', SUBSYSTEM: 'thunderbolt', DEVTYPE: 'thunderbolt_device', DEVPATH })
      } else if (at.includes('/bus/pci/devices/')) {
        const path = this.#real(name).slice(this.sysfsRoot.length)
        this.say({ ACTION: 'add', SUBSYSTEM: 'pci', DEVPATH: path, PCI_SLOT_NAME: name })
      }
    }
  }

  #stash(at: string): void {
    const from = join(this.#attic, String(this.#stashed.length))
    renameSync(at, from)
    this.#stashed.push({ from, at })
  }

  #attributes(address: string): void {
    for (const name of ['remove', 'rescan', 'driver_override']) {
      const path = join(this.#real(address), name)
      if (!existsSync(path)) writeFileSync(path, '')
    }
    const driver = /^DRIVER=(.+)$/m.exec(readFileSync(join(this.#real(address), 'uevent'), 'utf8'))?.[1]
    this.#setDriver(address, driver)
  }

  #real(address: string): string {
    return join(this.sysfsRoot, 'bus/pci/devices', readlinkSync(join(this.sysfsRoot, 'bus/pci/devices', address)))
  }
}

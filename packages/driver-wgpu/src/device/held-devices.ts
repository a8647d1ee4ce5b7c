import type { FreshAdapter } from '../adapters/adapter-seen.ts'
import { laterQuietly } from './timers.ts'

/** A device that this package opened, kept together with what must outlive it. */
export interface HeldDevice {
  readonly device: GPUDevice
  readonly keepAlive: GPU
  isLost: boolean
  /** Work of it has not come back. */
  isHung: boolean
}

/**
 * Every device that is open in this process. Dawn for Node has two rules that crash the process when broken: the
 * instance must stay referenced while any of its devices lives (github.com/dawn-gpu/node-webgpu/issues/18), and a lost
 * device must be destroyed before the next one is requested, else the heap is corrupted. The rules are about the
 * process, so the list is too.
 */
const held = new Set<HeldDevice>()

/**
 * Instances that nobody needs any more. Dawn for Node still has an event of theirs to process in one of the next turns,
 * and aborts the process when the instance was collected by then (`InstanceBase::ProcessEvents`, seen with 0.6.2).
 */
const lingering = new Set<object>()
const lingerMs = 5000

/** Keeps an instance of Dawn from being collected before it is through with everything. */
export function keepForAWhile<T extends object>(instance: T): T {
  lingering.add(instance)
  laterQuietly(lingerMs, () => laterQuietly(0, () => lingering.delete(instance)))
  return instance
}

/** A dead driver may never report the end of its device. */
const patienceMs = 2000

/** Takes charge of a fresh device. */
export function holdDevice(device: GPUDevice, { keepAlive }: Pick<FreshAdapter, 'keepAlive'>): HeldDevice {
  const entry: HeldDevice = { device, keepAlive, isLost: false, isHung: false }
  held.add(entry)
  void device.lost.then(() => void (entry.isLost = true))
  return entry
}

/**
 * Destroys a device with all its buffers and waits until it is gone. Doing it twice is fine. Dawn waits in the call for
 * the work of the device, so one that hangs is left alone until that comes back, if ever.
 */
export async function retireDevice(entry: HeldDevice): Promise<void> {
  if (entry.isHung && !entry.isLost) {
    held.delete(entry)
    const retire = (): Promise<void> => destroyDevice(entry)
    entry.device.queue.onSubmittedWorkDone().then(retire, retire)
    return
  }
  await destroyDevice(entry)
}

async function destroyDevice(entry: HeldDevice): Promise<void> {
  entry.device.destroy()
  let timer: { cancel(): void } | undefined
  await Promise.race([entry.device.lost, new Promise<void>((resolve) => (timer = laterQuietly(patienceMs, resolve)))])
  timer?.cancel()
  keepForAWhile(entry.keepAlive)
  held.delete(entry)
}

/** To be awaited before any new device is requested. */
export async function retireLostDevices(): Promise<void> {
  await Promise.all([...held].filter(({ isLost }) => isLost).map(retireDevice))
}

/** Number of devices that are open in this process, lost ones that were not retired yet included. */
export function heldDeviceCount(): number {
  return held.size
}

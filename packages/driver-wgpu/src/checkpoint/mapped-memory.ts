interface Copies {
  underWay: number
  /** Somebody wants the device destroyed, which has to wait while a copy is under way. */
  isEndWanted: boolean
  readonly destroy: () => undefined
}

const copies = new WeakMap<GPUDevice, Copies>()

/**
 * Keeps the mapped memory of a device in place while other threads copy from it or to it. `destroy()` takes the memory
 * away at once, which would crash the process; so a `destroy()` that comes in between is carried out right after the
 * copy, some milliseconds late. The loss of a device leaves mapped memory where it is.
 */
export async function whileMapped(device: GPUDevice, copy: () => Promise<void>): Promise<void> {
  const entry = copies.get(device) ?? guard(device)
  entry.underWay += 1
  try {
    await copy()
  } finally {
    entry.underWay -= 1
    if (entry.underWay === 0 && entry.isEndWanted) entry.destroy()
  }
}

/** Whether somebody has called `destroy()`, carried out or not: no new copy may put it off any longer. */
export function isEnding(device: GPUDevice): boolean {
  return copies.get(device)?.isEndWanted === true
}

function guard(device: GPUDevice): Copies {
  const entry: Copies = { underWay: 0, isEndWanted: false, destroy: device.destroy.bind(device) }
  copies.set(device, entry)
  device.destroy = () => {
    entry.isEndWanted = true
    if (entry.underWay === 0) entry.destroy()
    return undefined
  }
  return entry
}

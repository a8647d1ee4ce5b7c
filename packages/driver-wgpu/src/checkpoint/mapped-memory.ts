interface Copies {
  underWay: number
  /** Somebody wants the device destroyed, which has to wait. */
  isEndWanted: boolean
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
    if (entry.underWay === 0 && entry.isEndWanted) {
      entry.isEndWanted = false
      device.destroy()
    }
  }
}

function guard(device: GPUDevice): Copies {
  const entry: Copies = { underWay: 0, isEndWanted: false }
  copies.set(device, entry)
  const destroy = device.destroy.bind(device)
  device.destroy = () => {
    if (entry.underWay > 0) entry.isEndWanted = true
    else destroy()
    return undefined
  }
  return entry
}

import { join } from 'node:path'
import { listQuietly, readQuietly } from '../quiet-files.ts'
import type { PciFunction } from '../topology/types.ts'
import type { DeviceNode } from './device-nodes.ts'

/** Character device major of NVIDIA's driver (Documentation/admin-guide/devices.txt). */
const nvidiaMajor = 195

/**
 * `/dev/nvidiaN` of a GPU. NVIDIA's driver makes its nodes outside sysfs; the number is in its `information` file, which
 * is read only while the GPU is awake. A single GPU has them all, the unified-memory node included.
 */
export function nvidiaNodesOf(procRoot: string | undefined, gpu: PciFunction, count: number): readonly DeviceNode[] {
  if (count === 1) {
    const numbered = Array.from({ length: 32 }, (_, minor) => node(minor))
    return [...numbered, { path: '/dev/nvidia-uvm', harmless: false }, { path: '/dev/nvidia-modeset', harmless: false }]
  }
  if (procRoot === undefined || gpu.details?.runtimeStatus === 'suspended') return []
  const home = join(procRoot, 'driver/nvidia/gpus')
  const name = listQuietly(home).find((entry) => entry.toLowerCase() === gpu.address)
  const text = name === undefined ? undefined : readQuietly(join(home, name, 'information'))
  const minor = /^Device Minor:\s+(\d+)/m.exec(text ?? '')?.[1]
  return minor === undefined ? [] : [node(Number(minor))]
}

function node(minor: number): DeviceNode {
  return { path: `/dev/nvidia${minor}`, number: `${nvidiaMajor}:${minor}`, harmless: false }
}

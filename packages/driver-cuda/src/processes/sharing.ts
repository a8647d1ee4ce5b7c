import { readlinkSync, readdirSync } from 'node:fs'
import { readText } from './proc.ts'

/** What can be seen from outside of memory that NVIDIA cannot checkpoint. */
export interface SharingTraits {
  /** Managed memory (UVM): mapped beyond the 2 MiB that every CUDA process has of the node. */
  readonly hasManagedMemory: boolean
  /** An event is shared with other processes (CUDA IPC), as PyTorch does along with memory. */
  readonly sharesEvents: boolean
  /** A NCCL communicator that keeps host memory in common with its peers. */
  readonly sharesThroughNccl: boolean
}

export interface SharingRoots {
  readonly procRoot: string
  readonly devRoot: string
}

/** Measured on driver 580; each CUDA process maps this much of `/dev/nvidia-uvm` and no more. */
const ownUvmBytes = 2 * 2 ** 20

export function sharingOf({ procRoot, devRoot }: SharingRoots, pid: number): SharingTraits {
  const maps = readText(`${procRoot}/${pid}/maps`) ?? ''
  return {
    hasManagedMemory: mappedBytes(maps, `${devRoot}/nvidia-uvm`) > ownUvmBytes,
    sharesEvents: maps.includes(` ${devRoot}/shm/cuda.shm.`),
    sharesThroughNccl: hasNcclSocket(procRoot, pid) && !keepsNcclApart(procRoot, pid),
  }
}

function mappedBytes(maps: string, path: string): number {
  let bytes = 0
  for (const line of maps.split('\n')) {
    if (!line.endsWith(` ${path}`)) continue
    const [from, to] = (line.split(' ')[0] ?? '').split('-')
    bytes += Number(BigInt(`0x${to}`) - BigInt(`0x${from}`))
  }
  return bytes
}

/** NCCL's proxy listens on an abstract socket `@tmp/nccl-socket-<rank>-<hash>` for as long as a communicator lives. */
function hasNcclSocket(procRoot: string, pid: number): boolean {
  const sockets = readText(`${procRoot}/${pid}/net/unix`) ?? ''
  const inodes = new Set([...sockets.matchAll(/ (\d+) @tmp\/nccl-socket-/g)].map(([, inode]) => inode))
  if (inodes.size === 0) return false
  return openFiles(procRoot, pid).some((target) => inodes.has(/^socket:\[(\d+)\]$/.exec(target)?.[1]))
}

/** Since NCCL 2.24 its buffers in host memory are the driver's and shared by handle, unless it was told not to. */
function keepsNcclApart(procRoot: string, pid: number): boolean {
  return (readText(`${procRoot}/${pid}/environ`) ?? '').split('\0').includes('NCCL_CUMEM_HOST_ENABLE=0')
}

/** What its file descriptors stand for; empty when it may not be looked into. */
export function openFiles(procRoot: string, pid: number): readonly string[] {
  const directory = `${procRoot}/${pid}/fd`
  try {
    return readdirSync(directory).flatMap((name) => {
      try {
        return [readlinkSync(`${directory}/${name}`)]
      } catch {
        return [] // closed meanwhile
      }
    })
  } catch {
    return []
  }
}

import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** What has to be known of a GPU to move something onto it. */
export interface MappableGpu {
  readonly uuid: string
  readonly name: string | undefined
  /** Vendor and device id in one. */
  readonly model: number | undefined
  readonly memoryBytes: number | undefined
  readonly freeBytes: number | undefined
}

/** Driver 580 (CUDA 13.0) is the first whose restore takes a mapping. */
export function canMove(cudaVersion: number | undefined): boolean {
  return cudaVersion !== undefined && cudaVersion >= 13_000
}

/** From which GPU to which, by UUID. */
export type GpuMoves = Readonly<Record<string, string>>

export interface MappingRequest {
  /** Every GPU of the machine. */
  readonly gpus: readonly MappableGpu[]
  readonly moves: GpuMoves
  /** What the processes to be moved hold on each GPU. */
  readonly bytesOn: ReadonlyMap<string, number>
}

/**
 * Where every GPU of the machine goes: the driver takes a mapping only if it lists them all, each once on both sides,
 * and says so only after the process has been taken off its GPU. So everything is checked here before anything is
 * locked. GPUs that must make room trade places. Throws `TypeError`, `EGPU_DEVICE_NOT_FOUND` or
 * `EGPU_TARGET_INCOMPATIBLE`.
 */
export function permutationOf({ gpus, moves, bytesOn }: MappingRequest): ReadonlyMap<string, string> {
  const byUuid = new Map(gpus.map((gpu) => [gpu.uuid, gpu]))
  const find = (uuid: string): MappableGpu => {
    const gpu = byUuid.get(uuid)
    if (gpu !== undefined) return gpu
    throw new EGpuError(
      EGpuErrorCode.DeviceNotFound,
      `no GPU has the UUID ${uuid}; there are ${[...byUuid.keys()].join(', ')}`,
    )
  }
  const mapping = new Map<string, string>()
  for (const [from, to] of Object.entries(moves)) {
    const [source, target] = [find(from), find(to)]
    if ([...mapping.values()].includes(to)) throw new TypeError(`two GPUs cannot both move to ${to}`)
    if (source !== target) checkPair(source, target, bytesOn)
    mapping.set(from, to)
  }
  // Whoever is displaced goes along the chain to the place that became free.
  const free = [...mapping.keys()].filter((uuid) => ![...mapping.values()].includes(uuid))
  for (const uuid of byUuid.keys()) {
    if (mapping.has(uuid)) continue
    const isDisplaced = [...mapping.values()].includes(uuid)
    mapping.set(uuid, isDisplaced ? (free.shift() as string) : uuid)
  }
  return mapping
}

function checkPair(source: MappableGpu, target: MappableGpu, bytesOn: ReadonlyMap<string, number>): void {
  const refuse = (why: string): never => {
    throw new EGpuError(EGpuErrorCode.TargetIncompatible, `nothing was moved to GPU ${target.uuid}: ${why}`)
  }
  if (source.model !== target.model || source.name !== target.name) {
    refuse(
      `it is a ${target.name ?? 'different GPU'} and the work runs on a ${source.name ?? 'different one'}; NVIDIA moves between GPUs of one kind only`,
    )
  }
  const needed = bytesOn.get(source.uuid) ?? 0
  if (target.freeBytes !== undefined && needed > target.freeBytes) {
    refuse(`${needed} bytes are needed and ${target.freeBytes} are free there; free some, or park the work instead`)
  }
}

/** As `CUcheckpointGpuPair`: 16 bytes of old UUID and 16 of new for each GPU, in hexadecimal. */
export function gpuPairs(mapping: ReadonlyMap<string, string>): string {
  return [...mapping].map(([from, to]) => uuidDigits(from) + uuidDigits(to)).join('')
}

/** The way back. */
export function inverted(mapping: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...mapping].map(([from, to]) => [to, from]))
}

function uuidDigits(uuid: string): string {
  const digits = uuid.replace(/^GPU-/i, '').replaceAll('-', '')
  if (!/^[\da-f]{32}$/i.test(digits)) throw new TypeError(`${uuid} is not the UUID of a GPU`)
  return digits
}

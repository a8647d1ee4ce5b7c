/** A DriverKit extension that drives GPUs for computing. */
export interface GpuExtension {
  readonly name: string
  /** Its bundle id begins with this; the rest changes with versions. */
  readonly bundlePrefix: string
  /** The one PCI class its matching dictionary asks for. */
  readonly pciClass: number
  readonly vendorIds: readonly number[]
}

/** TinyGPU: Info.plist and entitlements of its dext in tinygrad/tinygrad (extra/usbgpu/tbgpu). */
const gpuExtensions: readonly GpuExtension[] = [
  { name: 'TinyGPU', bundlePrefix: 'org.tinygrad.tinygpu', pciClass: 0x030000, vendorIds: [0x10de, 0x1002] },
]

/** The extension a bundle id belongs to; `undefined` for one that is not known to make a GPU usable. */
export function extensionFor(bundleId: string | undefined): GpuExtension | undefined {
  return gpuExtensions.find(({ bundlePrefix }) => bundleId === bundlePrefix || bundleId?.startsWith(`${bundlePrefix}.`))
}

export interface ListedExtension {
  readonly bundleId: string
  /** `undefined` when it is neither in force nor waiting: being removed, for one. */
  readonly approval: 'approved' | 'waiting' | undefined
}

/** Reads what `systemextensionsctl list` prints: a table with the bundle id and, in brackets, the state. */
export function parseSystemExtensions(text: string | undefined): readonly ListedExtension[] {
  return (text ?? '').split('\n').flatMap((line) => {
    const match = /\s([\w-]+(?:\.[\w-]+)+)\s+\([^)]*\).*\[([^\]]+)\]\s*$/.exec(line)
    if (match === null) return []
    return [{ bundleId: match[1] as string, approval: approvals.get(match[2] as string) }]
  })
}

const approvals: ReadonlyMap<string, 'approved' | 'waiting'> = new Map([
  ['activated enabled', 'approved'],
  ['activated waiting for user', 'waiting'],
])

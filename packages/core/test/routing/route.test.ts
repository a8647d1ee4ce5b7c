import { describe, expect, it } from 'vitest'
import {
  GpuDeviceState,
  GpuVendor,
  routeBackend,
  RuntimeKind,
  unknownVerdict,
  type HostTraits,
  type RoutableDevice,
  type Verdict,
} from '../../src/index.ts'

const everything = Object.values(RuntimeKind)
const external: Verdict = { conclusion: 'external', confidence: 0.9, transport: 'thunderbolt', evidence: [] }
const internal: Verdict = { conclusion: 'internal', confidence: 0.9, evidence: [] }

const linux: HostTraits = { platform: 'linux', architecture: 'x64' }
const windows: HostTraits = { platform: 'win32', architecture: 'x64' }
const browser: HostTraits = { platform: 'browser' }
const intelMac: HostTraits = { platform: 'darwin', architecture: 'x64' }
const appleSilicon: HostTraits = { platform: 'darwin', architecture: 'arm64' }
const someMac: HostTraits = { platform: 'darwin' }
const hosts = { linux, windows, browser, intelMac, appleSilicon, someMac, unknown: {} }

function gpu(vendor: GpuVendor | undefined, changes: Partial<RoutableDevice> = {}): RoutableDevice {
  return { gpu: { vendor }, verdict: external, state: GpuDeviceState.Ready, ...changes }
}

function runtimes(device: RoutableDevice, host: HostTraits, installed: Iterable<RuntimeKind> = everything): string {
  const route = routeBackend(device, installed, host)
  return route.routed ? route.choices.map((choice) => choice.runtime).join(' ') : 'none'
}

describe('routeBackend', () => {
  // Rows: who made the external GPU. Columns: the host.
  const table: Readonly<Record<string, Readonly<Record<keyof typeof hosts, string>>>> = {
    nvidia: {
      linux: 'cuda webgpu cpu',
      windows: 'cuda webgpu cpu',
      browser: 'webgpu cpu',
      intelMac: 'cpu',
      appleSilicon: 'cpu',
      someMac: 'cpu',
      unknown: 'cuda webgpu cpu',
    },
    amd: {
      linux: 'webgpu cpu',
      windows: 'webgpu cpu',
      browser: 'webgpu cpu',
      intelMac: 'metal webgpu cpu',
      appleSilicon: 'cpu',
      someMac: 'cpu',
      unknown: 'webgpu cpu',
    },
    intel: {
      linux: 'webgpu cpu',
      windows: 'webgpu cpu',
      browser: 'webgpu cpu',
      intelMac: 'cpu',
      appleSilicon: 'cpu',
      someMac: 'cpu',
      unknown: 'webgpu cpu',
    },
    'not known': {
      linux: 'webgpu cpu',
      windows: 'webgpu cpu',
      browser: 'webgpu cpu',
      intelMac: 'cpu',
      appleSilicon: 'cpu',
      someMac: 'cpu',
      unknown: 'webgpu cpu',
    },
  }
  const cells = Object.entries(table).flatMap(([maker, row]) =>
    Object.entries(row).map(([host, expected]) => [maker, host as keyof typeof hosts, expected] as const),
  )

  it.each(cells)('routes an external GPU, maker %s, on %s to: %s', (maker, host, expected) => {
    const vendor = Object.values(GpuVendor).find((one) => one === maker)
    expect(runtimes(gpu(vendor), hosts[host])).toBe(expected)
  })

  it.each([
    ['Apple silicon', appleSilicon, 'metal webgpu cpu'],
    ['a Mac of unknown kind', someMac, 'metal webgpu cpu'],
  ] as const)("routes Apple's own GPU on %s", (_, host, expected) => {
    expect(runtimes(gpu(GpuVendor.Apple, { verdict: internal }), host)).toBe(expected)
  })

  it("routes a Mac's built-in GPU by another maker to Metal", () => {
    expect(runtimes(gpu(GpuVendor.Intel, { verdict: internal }), intelMac)).toBe('metal webgpu cpu')
  })

  it.each([
    ['internal', internal, 'metal webgpu cpu'],
    ['external', external, 'cpu'],
    ['unknown', unknownVerdict, 'cpu'],
  ] as const)('goes by the verdict on Apple silicon when the maker is not known: %s', (_, verdict, expected) => {
    expect(runtimes(gpu(undefined, { verdict }), appleSilicon)).toBe(expected)
  })

  it('never gives Metal to an external GPU on Apple silicon, whatever else is said about it', () => {
    for (const vendor of [...Object.values(GpuVendor), undefined]) {
      for (const host of Object.values(hosts)) {
        const device = gpu(vendor, { appleSilicon: { enumerates: true, computeOnly: true } })
        expect(runtimes(device, host)).not.toMatch(/metal|cuda/)
      }
    }
  })

  it('names the extension that drives an external GPU on Apple silicon, and that it waits for a person', () => {
    const device = gpu(GpuVendor.Amd, {
      appleSilicon: {
        enumerates: true,
        drivenBy: 'org.tinygrad.tinygpu.driver2',
        approval: 'waiting',
        computeOnly: true,
      },
    })
    const route = routeBackend(device, [RuntimeKind.Metal], appleSilicon)
    expect(route).toMatchObject({ routed: false, refusals: [{ runtime: 'metal' }] })
    expect(route.refusals[0]?.reason).toContain('org.tinygrad.tinygpu.driver2, which waits to be allowed')
  })

  it('needs the driver of NVIDIA for CUDA', () => {
    expect(runtimes(gpu(GpuVendor.Nvidia, { driver: 'nvidia' }), linux)).toBe('cuda webgpu cpu')
    expect(runtimes(gpu(GpuVendor.Nvidia, { driver: 'nvlddmkm' }), windows)).toBe('cuda webgpu cpu')
    expect(runtimes(gpu(GpuVendor.Nvidia, { driver: 'nouveau' }), linux)).toBe('webgpu cpu')
  })

  const states: Readonly<Record<GpuDeviceState, string>> = {
    discovered: 'none',
    ready: 'cuda webgpu cpu',
    active: 'cuda webgpu cpu',
    degraded: 'cuda webgpu cpu',
    suspended: 'none',
    migrating: 'none',
    leaving: 'none',
    lost: 'none',
    wedged: 'none',
    returned: 'none',
    removed: 'none',
  }

  it.each(Object.values(GpuDeviceState).map((state) => [state, states[state]] as const))(
    'routes a device that is %s to: %s',
    (state, expected) => {
      expect(runtimes(gpu(GpuVendor.Nvidia, { state, driver: 'nvidia' }), linux)).toBe(expected)
    },
  )

  it.each([
    ['lost', { state: GpuDeviceState.Lost }, 'lost'],
    ['wedged', { state: GpuDeviceState.Wedged }, 'does not answer'],
    ['suspended', { state: GpuDeviceState.Suspended }, 'asleep'],
    ['asleep by its power state', { powerState: 'suspended' }, 'asleep'],
    ['disconnected', { powerState: 'disconnected' }, 'disconnected'],
    ['unbound', { state: GpuDeviceState.Discovered }, 'no kernel driver'],
    ['bound but not ready', { state: GpuDeviceState.Returned, driver: 'amdgpu' }, 'amdgpu is bound to it, but'],
    ['in a virtual machine', { driver: 'vfio-pci' }, 'vfio-pci holds it'],
    ['in a virtual machine without nodes', { driver: 'vfio-pci', state: GpuDeviceState.Discovered }, 'vfio-pci holds'],
    ['lost while in a virtual machine', { driver: 'vfio-pci', state: GpuDeviceState.Lost }, 'lost'],
  ] as const)('routes to none, with the reason, a device that is %s', (_, changes, reason) => {
    const route = routeBackend(gpu(GpuVendor.Amd, changes), everything, linux)
    expect(route).toEqual({ routed: false, reason: expect.stringContaining(reason), refusals: [] })
  })

  it('offers only what is installed', () => {
    expect(runtimes(gpu(GpuVendor.Nvidia), linux, [RuntimeKind.Cpu, RuntimeKind.WebGpu])).toBe('webgpu cpu')
    expect(routeBackend(gpu(GpuVendor.Amd), [], linux)).toEqual({
      routed: false,
      reason: 'no runtime is installed',
      refusals: [],
    })
  })

  it('says why each installed runtime was passed over', () => {
    const route = routeBackend(gpu(GpuVendor.Amd), everything, linux)
    expect(route.refusals.map((refusal) => refusal.runtime)).toEqual(['metal', 'cuda', 'simulated'])
    const none = routeBackend(gpu(GpuVendor.Amd), [RuntimeKind.Cuda], linux)
    expect(none).toMatchObject({ routed: false, reason: 'cuda: it needs an NVIDIA GPU' })
  })

  it('gives reasons for every choice, and warns of cables and degraded devices', () => {
    const route = routeBackend(gpu(GpuVendor.Nvidia, { state: GpuDeviceState.Degraded }), everything, linux)
    const choices = route.routed ? route.choices : []
    expect(choices).toHaveLength(3)
    expect(choices.every((choice) => choice.for.length > 0)).toBe(true)
    expect(choices[0]?.against).toEqual([
      "whether NVIDIA's kernel driver is bound is not known",
      'the device can vanish with its cable',
      'the device is degraded',
    ])
    expect(choices[2]?.against).toEqual(['leaves the GPU unused'])
  })

  it('refuses what is not a runtime', () => {
    expect(() => routeBackend(gpu(GpuVendor.Amd), ['opencl' as RuntimeKind], linux)).toThrow(TypeError)
  })
})

import { create } from 'webgpu'

/** Instances must outlive their devices; Dawn aborts the process otherwise. */
const instances: GPU[] = []

function dawn(): GPU {
  const gpu = create([])
  instances.push(gpu)
  return gpu
}

/** What a test changes about Dawn's GPU; each is given what would happen otherwise. */
export interface DawnChanges {
  readonly adapter?: (
    ask: () => Promise<GPUAdapter | null>,
    question: GPURequestAdapterOptions,
  ) => Promise<GPUAdapter | null>
  readonly device?: (ask: () => Promise<GPUDevice>) => Promise<GPUDevice>
}

/** Dawn as a `GPU` to be handed over, with an instance of its own for each adapter. */
export function changedDawn({ adapter = (ask) => ask(), device = (ask) => ask() }: DawnChanges): GPU {
  const requestAdapter = async (question: GPURequestAdapterOptions): Promise<GPUAdapter | null> => {
    const real = await dawn().requestAdapter(question)
    if (real === null) return null
    const request = real.requestDevice.bind(real)
    const value = (descriptor: GPUDeviceDescriptor): Promise<GPUDevice> => device(() => request(descriptor))
    return Object.defineProperty(real, 'requestDevice', { value, configurable: true })
  }
  return {
    requestAdapter: (question: GPURequestAdapterOptions = {}) => adapter(() => requestAdapter(question), question),
  } as unknown as GPU
}

/** The adapter under another name. */
export function named(adapter: GPUAdapter, description: string): GPUAdapter {
  return new Proxy(adapter, {
    get: (target, name) => {
      if (name === 'info')
        return { vendor: 'test', architecture: '', device: '', description, isFallbackAdapter: false }
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

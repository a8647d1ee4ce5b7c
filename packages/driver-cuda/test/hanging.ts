// Asks NVML something with a fake machine's options from its arguments, and does not wait for it when told to end.
import { cudaDriver } from '../src/index.ts'
import type { CudaDriverOptions } from '../src/index.ts'

process.once('SIGTERM', () => process.exit(0))
await cudaDriver(JSON.parse(process.argv[2] ?? '{}') as CudaDriverOptions).list()

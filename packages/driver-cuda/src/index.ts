export { cudaDriver } from './driver.ts'
export type { CudaDriver, CudaDriverOptions } from './driver.ts'
export type { LibraryOptions } from './libraries.ts'
export type { NvidiaDetails, RecoveryAction } from './nvml/health.ts'

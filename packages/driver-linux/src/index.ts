export { linuxDriver } from './driver.ts'
export type { LinuxDriverOptions } from './driver.ts'
export { parseOverrides } from './verdict/override.ts'
export type { VerdictOverride } from './verdict/override.ts'

export { linuxDriver } from './driver.ts'
export type { LinuxDriverOptions } from './driver.ts'

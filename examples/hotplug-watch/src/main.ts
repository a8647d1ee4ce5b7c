import { linuxDriver } from '@egpu/driver-linux'
import { macosDriver } from '@egpu/driver-macos'
import { watch } from './watch.ts'

const stop = new AbortController()
process.once('SIGINT', () => stop.abort())
await watch([linuxDriver(), macosDriver()], console.log, stop.signal)

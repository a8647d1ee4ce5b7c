import { directoryStore } from '@egpu/migrator/node'
import { write } from './states.ts'

/** A process that is killed while it has a store open. */
const store = directoryStore(process.argv[2] as string)
await write(store, 'job', await store.acquire('job'), 5, { part: new Uint8Array(10) })
process.kill(process.pid, 'SIGKILL')

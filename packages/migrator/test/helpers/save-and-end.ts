/** Saves to a store in the directory that it is given, with threads that hash, closes it and has nothing else to do. */
import { directoryStore } from '../../src/node/index.ts'

const byteLength = 2 ** 22
const store = directoryStore(process.argv[2] as string)
const token = await store.acquire('job')
const writer = await store.begin({ workloadId: 'job', token, progress: 1, parts: [{ name: 'part', byteLength }] })
await writer.append(
  'part',
  new Uint8Array(byteLength).map((_, at) => at * at),
)
await writer.commit()
await store.close()
console.log('closed')

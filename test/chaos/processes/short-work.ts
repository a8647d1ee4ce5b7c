import { simDriver } from '@egpu/driver-sim'
import type { Work } from '@egpu/migrator/node'
import { CheckedMixer } from './checked-mixer.ts'
import { survived } from './protocol.ts'
import { sayIn } from './said.ts'

/**
 * A second of work in real time, saved every few milliseconds, for children that are killed. Nothing here is imported by
 * another module: the address of this one, which a bundler gives to what is shared, says where the ledger is.
 */
const work: Work = () => {
  const directory = new URL(import.meta.url).searchParams.get('directory')
  if (directory === null) throw new TypeError('where the ledger is must be said')
  const say = sayIn(directory)
  const mixer = new CheckedMixer({ ...survived, stepMs: 1, directory, say })
  return {
    drivers: [simDriver({ gpus: [{ name: 'inside' }] })],
    workload: mixer,
    config: { checkpointIntervalMs: 15 },
    result: () => {
      say({ type: 'finished', result: mixer.result, doubleOwners: mixer.doubleOwners })
      return mixer.result
    },
  }
}

export default work

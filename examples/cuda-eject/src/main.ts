import { once } from 'node:events'
import { stepAside } from './step-aside.ts'

const wait = async (): Promise<void> => {
  console.log('Press Enter to let them go on.')
  await once(process.stdin, 'data')
  process.stdin.pause()
}
await stepAside(console.log, wait)

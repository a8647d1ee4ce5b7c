// Claims the process of its arguments at the moment each line of its input names, and says whether it got it.
import { createInterface } from 'node:readline'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { Journal } from '../src/checkpoint/journal.ts'

const [directory = '', pid = '', startTime = ''] = process.argv.slice(2)
const journal = new Journal(directory, '/proc')
console.log('ready')
for await (const atMs of createInterface({ input: process.stdin })) {
  while (Date.now() < Number(atMs));
  try {
    journal.claim({ pid: Number(pid), startTime, name: 'victim', group: [Number(pid)], gpus: [] })
    console.log('mine')
  } catch (error) {
    if (!EGpuError.is(error, EGpuErrorCode.DeviceBusy)) throw error
    console.log('busy')
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import { simDriver } from '@egpu/driver-sim'
import { expect, it } from 'vitest'
import { watch } from '../src/watch.ts'

it('tells a plug, a slower link and a pulled cable, in that order', async () => {
  const driver = simDriver({ seed: 1, enclosures: [{ name: 'Core X V2', gpus: [{ name: 'RTX 4090' }] }] })
  const [box] = driver.machine.enclosures
  const stop = new AbortController()
  const lines: string[] = []
  const said = async (text: string): Promise<void> => {
    while (!lines.some((line) => line.startsWith(text))) await sleep(1)
  }
  const watching = watch([driver], (line) => void lines.push(line), stop.signal)
  await said('driver')
  await sleep(10)
  box?.plug()
  await said('ready')
  box?.degradeLink()
  await said('link-speed-changed')
  box?.yank()
  await said('disconnected')
  stop.abort()
  await watching
  expect(lines.map((line) => line.split(':')[0])).toEqual([
    'driver sim',
    'enclosure-connected',
    'connected',
    'ready',
    'link-speed-changed',
    'leaving',
    'lost',
    'disconnected',
  ])
  expect(lines.join('\n')).toContain('RTX 4090 (external')
})

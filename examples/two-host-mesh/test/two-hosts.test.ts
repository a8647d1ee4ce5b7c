import { expect, it } from 'vitest'
import { twoHosts } from '../src/two-hosts.ts'

it('counts right although the eGPU of one host is pulled and another host goes on', { timeout: 60_000 }, async () => {
  const lines: string[] = []
  // There are 33,860 primes up to 400,000.
  expect(await twoHosts(400_000, (line) => void lines.push(line))).toBe(33_860)
  expect(lines.filter((line) => line.startsWith('runs on'))).toEqual(['runs on eGPU of a', 'runs on eGPU of b'])
})

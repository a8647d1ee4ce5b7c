import { expect, it } from 'vitest'
import { survive } from '../src/survive.ts'

it('counts right although the GPU is pulled in the middle', async () => {
  const lines: string[] = []
  // There are 9,592 primes up to 100,000 (OEIS A006880).
  expect(await survive(100_000, (line) => void lines.push(line))).toBe(9_592)
  expect(lines[0]).toBe('begins on external GPU')
  expect(lines.join('\n')).toMatch(/lost: external GPU\ngoes on at CPU after \d+ ms/)
})

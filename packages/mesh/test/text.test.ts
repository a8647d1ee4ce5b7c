import { expect, it } from 'vitest'
import { plainText } from '../src/text.ts'

it.each([
  ['control characters', 'a\u0000\u001b[31m\u007f\u009bb', 'a[31mb'],
  ['line separators', 'a\n\r\u2028\u2029b', 'ab'],
  ['marks that turn the direction of writing', 'a\u061c\u200e\u200f\u202a\u202e\u2066\u2069b', 'ab'],
  ['halves of characters', 'a\ud83d b\ude00', 'a b'],
])('a name loses %s', (_, name, expected) => {
  expect(plainText(name)).toBe(expected)
})

it('a long name is cut between characters', () => {
  expect(plainText('😀'.repeat(200))).toBe('😀'.repeat(128))
})

it('other names stay as they are', () => {
  for (const name of ['laptop', "Anna's Mac Studio", 'Bürorechner', '作業機', 'مضيف'])
    expect(plainText(name)).toBe(name)
})

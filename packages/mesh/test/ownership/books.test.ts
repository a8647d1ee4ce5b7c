import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { writeJson } from '../../src/ownership/json-file.ts'
import { OwnershipBook } from '../../src/ownership/ownership-book.ts'
import { TokenBook } from '../../src/ownership/token-book.ts'
import { folder } from '../helpers/folder.ts'

const malformed = { code: EGpuErrorCode.MalformedData }
const stale = { code: EGpuErrorCode.StaleEpoch }

describe('the book of tokens', () => {
  it('knows a lower token for stale, also after a restart', async () => {
    const path = join(folder(), 'tokens.json')
    const book = await TokenBook.open(path)
    await book.see('job', 7)
    await book.see('job', 7)
    await expect(book.see('job', 6)).rejects.toMatchObject(stale)
    const again = await TokenBook.open(path)
    expect(again.highest('job')).toBe(7)
    expect(() => again.assertCurrent('job', 6)).toThrow(expect.objectContaining(stale) as Error)
    again.assertCurrent('job', 8)
    again.assertCurrent('another', 1)
  })

  it('has on the disk what it has said yes to, however many come at once', async () => {
    const path = join(folder(), 'tokens.json')
    const book = await TokenBook.open(path)
    await Promise.all(Array.from({ length: 50 }, (_, index) => book.see(`job ${index}`, index + 1)))
    const kept = JSON.parse(readFileSync(path, 'utf8')) as Record<string, number>
    expect(Object.keys(kept)).toHaveLength(50)
    expect(kept['job 49']).toBe(50)
  })

  it('takes no token that cannot be', async () => {
    const book = await TokenBook.open()
    for (const token of [0, -1, 1.5, Number.NaN, 2 ** 53])
      await expect(book.see('job', token)).rejects.toMatchObject(malformed)
    expect(book.highest('job')).toBe(0)
  })

  it('does not begin anew when its file is damaged: stale tokens would pass', async () => {
    const path = join(folder(), 'tokens.json')
    for (const text of ['', '{"job":', '[]', '{"job":"7"}', '{"job":0}', '7']) {
      writeFileSync(path, text)
      await expect(TokenBook.open(path)).rejects.toMatchObject(malformed)
    }
  })
})

describe('a file that is written again and again', () => {
  it('is written once for all who asked while it was being written, with what is true then', async () => {
    const path = join(folder(), 'file.json')
    let [state, writes] = [0, 0]
    const write = (): Promise<void> => {
      state += 1
      return writeJson(path, () => {
        writes += 1
        return state
      })
    }
    await Promise.all(Array.from({ length: 100 }, write))
    expect(JSON.parse(readFileSync(path, 'utf8'))).toBe(100)
    expect(writes).toBeLessThan(3)
    await write()
    expect(JSON.parse(readFileSync(path, 'utf8'))).toBe(101)
  })

  it('tells all whose write failed, and is written again later', async () => {
    const path = join(folder(), 'file.json')
    const writes = [1, 2, 3].map(() => writeJson(path, () => ({ toJSON: () => assert.fail('broken') })))
    expect((await Promise.allSettled(writes)).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    await writeJson(path, () => 'whole')
    expect(JSON.parse(readFileSync(path, 'utf8'))).toBe('whole')
  })
})

describe('the book of owners', () => {
  it('remembers who owns what, and who gave it up, after a restart', async () => {
    const path = join(folder(), 'owners.json')
    const book = await OwnershipBook.open(path)
    await book.put({ resource: 'job', owner: 'a', token: 3 })
    await book.put({ resource: 'done', owner: undefined, token: 9 })
    const again = await OwnershipBook.open(path)
    expect(again.get('job')).toEqual({ resource: 'job', owner: 'a', token: 3 })
    expect(again.get('done')).toEqual({ resource: 'done', owner: undefined, token: 9 })
    expect(again.get('never')).toBeUndefined()
  })

  it('takes from a file or a peer only what can be', () => {
    const odd = [
      undefined,
      null,
      'job',
      {},
      { resource: '', owner: 'a', token: 1 },
      { resource: 'x'.repeat(2_000), owner: 'a', token: 1 },
      { resource: 'job', owner: 'a', token: 0 },
      { resource: 'job', owner: 'a', token: '1' },
      { resource: 'job', owner: 7, token: 1 },
      { resource: 'job', owner: '', token: 1 },
      { resource: 'job', owner: '\u001b[2J', token: 1 },
      { resource: 'job', owner: 'x'.repeat(100_000), token: 1 },
    ]
    for (const value of odd)
      expect(() => OwnershipBook.entry(value)).toThrow(expect.objectContaining(malformed) as Error)
    expect(OwnershipBook.entry({ resource: 'job', owner: null, token: 1, more: true })).toEqual({
      resource: 'job',
      owner: undefined,
      token: 1,
    })
  })

  it('has room for what others say, and for its own, whatever one peer says', async () => {
    const book = await OwnershipBook.open()
    for (let index = 0; index < 10_000; index += 1)
      await book.hear({ resource: `lie ${index}`, owner: 'z', token: 1 }, 'liar')
    await expect(book.hear({ resource: 'one more', owner: 'z', token: 1 }, 'liar')).rejects.toMatchObject(malformed)
    // What is known already can change hands.
    await book.hear({ resource: 'lie 7', owner: 'y', token: 2 }, 'liar')
    await book.hear({ resource: 'job', owner: 'a', token: 1 }, 'another peer')
    await book.put({ resource: 'own', owner: 'self', token: 1 })
    expect(book.entries()).toHaveLength(10_002)
  })

  it('does not begin anew when its file is damaged', async () => {
    const path = join(folder(), 'owners.json')
    for (const text of ['{}', '[{"resource":"job"}]', '[']) {
      writeFileSync(path, text)
      await expect(OwnershipBook.open(path)).rejects.toMatchObject(malformed)
    }
  })
})

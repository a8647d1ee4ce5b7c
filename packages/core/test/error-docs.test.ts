import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { EGpuErrorCode } from '../src/error.ts'

const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8')

it('explains every error code under a heading of its own, and none that does not exist', () => {
  const headings = [...page.matchAll(/^## (\S+)$/gm)].map(([, code]) => code)
  expect(headings).toEqual(Object.values(EGpuErrorCode))
})

it('says something under each heading', () => {
  for (const section of page.split(/^## /m).slice(1)) expect(section.trim().split('\n').length).toBeGreaterThan(2)
})

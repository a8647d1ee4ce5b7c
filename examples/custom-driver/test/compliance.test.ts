import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { driverCompliance } from '@egpu/core/testing'
import { describe, it } from 'vitest'
import { journalDriver } from '../src/journal-driver.ts'

driverCompliance({ describe, it }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'egpu-journal-'))
  const path = join(folder, 'gpus.jsonl')
  const line = (present: boolean): string => `${JSON.stringify({ serial: 'a1b2', name: 'Test GPU', present })}\n`
  writeFileSync(path, line(true))
  const driver = journalDriver(path)
  return {
    driver,
    unusable: journalDriver(join(folder, 'no-such-file')),
    hands: {
      plug: () => appendFileSync(path, line(true)),
      unplug: () => appendFileSync(path, line(false)),
    },
    [Symbol.asyncDispose]: async () => {
      await driver.close()
      rmSync(folder, { recursive: true })
    },
  }
})

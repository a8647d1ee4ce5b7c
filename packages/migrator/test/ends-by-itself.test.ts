import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'

it('a process that has closed its store ends by itself', { timeout: 120_000 }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'egpu-ends-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const script = fileURLToPath(new URL('helpers/save-and-end.ts', import.meta.url))
  for (let time = 0; time < 3; time += 1) {
    const child = spawn(process.execPath, ['--conditions=@egpu/source', '--import=tsx', script, directory])
    onTestFinished(() => void child.kill('SIGKILL'))
    child.stderr.pipe(process.stderr)
    const [said] = (await once(child.stdout, 'data')) as [Buffer]
    expect(said.toString()).toBe('closed\n')
    expect(await once(child, 'exit')).toEqual([0, null])
  }
})

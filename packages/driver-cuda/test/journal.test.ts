import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished, vi } from 'vitest'
import { Journal } from '../src/checkpoint/journal.ts'
import { bootId, readProcess } from '../src/processes/proc.ts'

vi.setConfig({ testTimeout: 180_000 })

const { pid, startTime } = readProcess('/proc', process.pid) as { readonly pid: number; readonly startTime: string }
const about = { pid, startTime, name: 'victim', group: [pid], gpus: [{ uuid: 'GPU-1', bytes: 7 }] }

function directory(): string {
  const path = mkdtempSync(join(tmpdir(), 'egpu-cuda-notes-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

it('of several programs that want a process at the same moment, never two get it', async () => {
  const path = directory()
  const file = fileURLToPath(new URL('./claimant.ts', import.meta.url))
  const args = ['--conditions=@egpu/source', '--import=tsx', file, path, String(pid), startTime]
  const claimants = Array.from({ length: 4 }, () => {
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    onTestFinished(() => void child.kill())
    const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    return { child, answer: async () => (await answers.next()).value as string }
  })
  await Promise.all(claimants.map(({ answer }) => answer()))
  const note = { ...about, version: 1, bootId: bootId('/proc') }
  const starts = [
    undefined,
    { ...note, goal: 'parked' },
    { ...note, goal: 'running', owner: { pid: 1, startTime: '0' } },
  ]
  let won = 0
  for (let round = 0; round < 90; round += 1) {
    for (const name of readdirSync(path)) rmSync(join(path, name))
    const start = starts[round % starts.length]
    if (start !== undefined) writeFileSync(join(path, `${pid}-${startTime}.json`), JSON.stringify(start))
    const atMs = Date.now() + 8
    for (const { child } of claimants) child.stdin.write(`${atMs}\n`)
    const answers = await Promise.all(claimants.map(({ answer }) => answer()))
    const winners = answers.filter((answer) => answer === 'mine').length
    expect(winners).toBeLessThanOrEqual(1)
    won += winners
  }
  expect(won).toBeGreaterThan(0)
})

it('a claim that is given back leaves what was noted before: that it is parked, or nothing', () => {
  const journal = new Journal(directory(), '/proc')
  journal.unclaim(about, journal.claim(about))
  expect(journal.entries()).toEqual([])
  journal.claim(about)
  journal.parked(about)
  const parked = journal.entries()
  expect(parked).toMatchObject([{ goal: 'parked', gpus: about.gpus }])
  journal.unclaim(about, journal.claim({ ...about, gpus: [] }))
  expect(journal.entries()).toEqual(parked)
})

it('gives nothing up that belongs to another one who is alive', () => {
  const path = directory()
  const journal = new Journal(path, '/proc')
  journal.claim(about)
  const file = join(path, `${pid}-${startTime}.json`)
  const parent = readProcess('/proc', process.ppid) as { readonly pid: number; readonly startTime: string }
  const owner = { pid: parent.pid, startTime: parent.startTime }
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), owner }))
  journal.disown(about)
  expect(journal.entries()).toMatchObject([{ owner }])
})

it('takes nothing from who is at it and alive', () => {
  const path = directory()
  const journal = new Journal(path, '/proc')
  journal.claim(about)
  expect(() => new Journal(path, '/proc').claim(about)).toThrow(/is moving or parking process/)
  expect(journal.entries()).toHaveLength(1)
})

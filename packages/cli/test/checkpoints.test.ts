import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { directoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCli } from '../src/cli.ts'
import { recordingTerminal } from './recording-terminal.ts'

let folder: string
let home: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'egpu-checkpoints-'))
  home = join(folder, 'store')
  await using store = directoryStore(home)
  for (const progress of [10, 20]) {
    const token = await store.acquire('work')
    const parts = [{ name: 'field', byteLength: 4 }]
    const writer = await store.begin({ workloadId: 'work', token, progress, parts })
    await writer.append('field', new Uint8Array([progress, 2, 3, 4]))
    await writer.commit()
  }
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

async function checkpoints(...args: string[]): Promise<{ code: number; out: string; notes: string }> {
  const terminal = recordingTerminal()
  const code = await runCli(['checkpoints', ...args], terminal)
  return { code, out: terminal.out.join('\n'), notes: terminal.notes.join('\n') }
}

describe('egpu checkpoints', () => {
  it('lists what a store holds, newest first', async () => {
    const { code, out } = await checkpoints('list', home)
    expect(code).toBe(0)
    expect(out).toMatch(/work[\s\S]*step 20[\s\S]*step 10/)
  })

  it.each(['list', 'verify'])(
    '%s tells a person that a directory holds no checkpoints, keeps JSON clean, and makes nothing there',
    async (what) => {
      expect((await checkpoints(what, folder)).notes).toBe('there are no checkpoints here')
      expect(await checkpoints(what, folder, '--json')).toEqual({ code: 0, out: '', notes: '' })
      expect(readdirSync(folder)).toEqual(['store'])
    },
  )

  it('copies a chosen checkpoint out of one store into another, byte for byte', async () => {
    const file = join(folder, 'one.egpu')
    const [record] = JSON.parse((await checkpoints('list', home, '--json')).out).checkpoints.slice(-1)
    expect((await checkpoints('export', home, 'work', file, '--generation', String(record.generation))).code).toBe(0)
    const other = join(folder, 'other')
    expect((await checkpoints('import', other, file)).code).toBe(0)
    await using store = directoryStore(other)
    const [copied] = await store.list('work')
    expect(copied?.progress).toBe(10)
    const bytes: number[] = []
    for await (const chunk of (await store.open('work', copied?.generation ?? 0)).read('field')) bytes.push(...chunk)
    expect(bytes).toEqual([10, 2, 3, 4])
  })

  it('finds a flipped bit, says where, and fails', async () => {
    expect((await checkpoints('verify', home)).out).toMatch(/sound[\s\S]*sound/)
    const packs = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.pack$|packs?\//.test(name),
    )
    const pack = join(
      home,
      packs.find((name) => readFileSync(join(home, name)).includes(Buffer.from([20, 2, 3, 4]))) ?? '',
    )
    const bytes = readFileSync(pack)
    const at = bytes.indexOf(Buffer.from([20, 2, 3, 4]))
    bytes[at] = (bytes[at] ?? 0) ^ 1
    writeFileSync(pack, bytes)
    const { code, out } = await checkpoints('verify', home, '--json')
    expect(code).toBe(1)
    const lines = out.split('\n').map((line) => JSON.parse(line) as { sound: boolean })
    expect(lines.filter(({ sound }) => sound)).toHaveLength(1)
    expect(lines).toHaveLength(2)
  })

  it.each([
    [['list', '/nowhere/at/all'], /no directory of checkpoints/],
    [['export', 'HOME', 'wrok', 'FILE'], /no workload is called wrok \(did you mean work\?\); there are: work/],
    [['export', 'HOME', 'work', 'FILE', '--generation', '99'], /generations: 2, 1/],
    [['import', 'HOME', 'HOME'], /./],
  ])('refuses %j with a reason, and leaves nothing behind', async (args, reason) => {
    const file = join(folder, 'never')
    const real = args.map((arg) => arg.replace('HOME', home).replace('FILE', file))
    const { code, notes } = await checkpoints(...real)
    expect(code).toBe(1)
    expect(notes).toMatch(reason)
    expect(existsSync(file)).toBe(false)
  })
})

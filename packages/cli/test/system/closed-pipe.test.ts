import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../../driver-linux/test/machines/index.ts'

const bin = fileURLToPath(new URL('../../dist/bin.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'egpu-pipe-'))
const dump = join(folder, 'machine.json')

beforeAll(() => {
  using machine = buildMachine(machineNamed('5'))
  const made = spawnSync(process.execPath, [bin, 'dump', '-o', dump, '--sysfs-root', machine.sysfsRoot])
  expect(made.status).toBe(0)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs a command line whose output goes to `target`, and says how egpu itself ended and what it complained of. */
function egpu(command: string, target: string): { readonly status: string; readonly complaint: string } {
  const script = `{ ${process.execPath} ${bin} ${command}; echo "ended $?" >&2; } ${target}`
  const { stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8', cwd: folder })
  const [complaint = '', status = ''] = stderr.split('ended ')
  return { status: status.trim(), complaint: complaint.trim() }
}

describe('egpu writing to what does not take it', () => {
  it.each([
    'list --from machine.json',
    'list --json --from machine.json',
    'tree --from machine.json',
    'doctor --from machine.json',
    'dump',
    '--help',
    'eject --help',
    'demo --no-webgpu --size 16 --steps 40',
    'dashboard --port 0 --from machine.json',
  ])('%s | true: ends at once without a word', (command) => {
    const { status, complaint } = egpu(command, '| true')
    expect({ status, complaint: complaint.replaceAll(/^(?:steps: .*|Ctrl-C ends it)$/gm, '').trim() }).toEqual({
      status: '0',
      complaint: '',
    })
  })

  it('list > /dev/full: says that there is no room', () => {
    const { status, complaint } = egpu('list --from machine.json', '> /dev/full')
    expect(status).toBe('1')
    expect(complaint).toMatch(/^egpu: .*no space left on device/)
    expect(complaint).not.toMatch(/\n/)
  })

  it('nobody hears the notes: goes on all the same', () => {
    const script = `${process.execPath} ${bin} list --from ${dump} 2>&1 >/dev/null | true; echo "\${PIPESTATUS[0]}"`
    expect(spawnSync('bash', ['-c', script], { encoding: 'utf8' }).stdout.trim()).toBe('0')
  })
})

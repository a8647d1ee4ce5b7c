import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pnpm, root, tool } from '../../scripts/pnpm.mjs'
import type { Figure } from '../figure.ts'

const rounds = 15

interface Usage {
  readonly cpuMs: number
  readonly rssMB: number
}

/** `egpu list` of a packed and installed CLI over a bare Node, in turns; the median of both. */
export async function measure(): Promise<readonly Figure[]> {
  const project = mkdtempSync(join(tmpdir(), 'egpu-cold-'))
  try {
    install(project)
    const report = join(project, 'usage.json')
    const bare: Usage[] = []
    const list: Usage[] = []
    const bin = join(project, 'node_modules/@egpu/cli/dist/bin.js')
    for (let round = 0; round < rounds; round += 1) {
      bare.push(run(project, report, ['-e', '0']))
      list.push(run(project, report, [bin, 'list']))
    }
    const [bareCpu, listCpu] = [median(bare, 'cpuMs'), median(list, 'cpuMs')]
    const [bareRss, listRss] = [median(bare, 'rssMB'), median(list, 'rssMB')]
    return [
      {
        figure: 'egpu list, CPU over bare node',
        value: listCpu - bareCpu,
        unit: 'ms',
        against: `node -e 0: ${bareCpu.toFixed(0)} ms`,
        ratio: listCpu / bareCpu,
        bar: '<= 150 ms',
        pass: listCpu - bareCpu <= 150,
      },
      {
        figure: 'egpu list, memory over bare node',
        value: listRss - bareRss,
        unit: 'MB',
        against: `node -e 0: ${bareRss.toFixed(0)} MB`,
        ratio: listRss / bareRss,
        bar: '<= 40 MB',
        pass: listRss - bareRss <= 40,
      },
    ]
  } finally {
    rmSync(project, { recursive: true, force: true })
  }
}

function install(project: string): void {
  if (tool('turbo', ['run', 'build', '--output-logs=errors-only', '--no-update-notifier']) !== 0) {
    throw new Error('the packages could not be built')
  }
  for (const name of readdirSync(join(root, 'packages'))) {
    const cwd = join(root, 'packages', name)
    if (pnpm(['pack', '--pack-destination', project, '--silent'], { cwd, stdio: 'ignore' }) !== 0) {
      throw new Error(`${name} could not be packed`)
    }
  }
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'empty', private: true }))
  const tarballs = readdirSync(project).filter((name) => name.endsWith('.tgz'))
  execFileSync('npm', ['install', '--no-audit', '--no-fund', ...tarballs.map((name) => `./${name}`)], {
    cwd: project,
    stdio: 'pipe',
  })
}

/** Both runs report their own usage when they end, so what the report costs is in both. */
function run(project: string, report: string, args: readonly string[]): Usage {
  const preload = `process.on('exit', () => {
    const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
    require('node:fs').writeFileSync(${JSON.stringify(report)}, JSON.stringify({ cpuMs: (userCPUTime + systemCPUTime) / 1000, rssMB: maxRSS / 1000 }))
  })`
  const file = join(project, 'preload.cjs')
  writeFileSync(file, preload)
  const { status, stderr } = spawnSync(process.execPath, ['--require', file, ...args], {
    cwd: project,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`node ${args.join(' ')} failed: ${stderr}`)
  return JSON.parse(readFileSync(report, 'utf8')) as Usage
}

function median(usages: readonly Usage[], field: keyof Usage): number {
  const sorted = usages.map((usage) => usage[field]).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

import { readFileSync, readdirSync } from 'node:fs'
import type { Figure } from '../figure.ts'

interface Step {
  readonly ms: number
}
interface Move {
  readonly pauseMs: number
  readonly driverMs: number
  readonly totalMs: number
  readonly leftBytes: number
  readonly steps: readonly Step[]
}
interface Compared {
  readonly comparison?: { readonly identical: boolean } | undefined
}
/** CPU of all threads of the application and of its helper process. */
interface Usage {
  readonly wallMs: number
  readonly ownMs: number
  readonly hostMs: number
}
interface Results {
  readonly date: string
  readonly driver?: string
  readonly parts: {
    /** `bare` is the same without a sample. */
    readonly nvmlSampling?: Partial<Usage> & { readonly bare?: Usage }
    readonly moves?: Compared & {
      readonly moves?: readonly Move[]
      /** What a park and a resume add to the private memory of the application and its helpers together. */
      readonly memory?: { readonly addedKiB: number }
    }
    /** All kills hit one program, whose output is compared at the end. */
    readonly kills?: Compared
    readonly [killed: `killed-${string}`]: { readonly endedBy?: string; readonly stateNow?: string }
  }
}

/** What counts as the idle level: NVML rounds, and the driver keeps a little for itself. */
const idleBytes = 32 * 2 ** 20

/**
 * Figures of the newest runs on real GPUs (`test/device/cuda.sh`), which no CI machine can repeat; each has its date. A run
 * on a machine with one GPU is kept as `cuda-<date>-one-gpu.json`.
 */
export function measure(): Promise<Figure[]> {
  const { date, parts } = newest(/^cuda-[\d-]+[a-z]?\.json$/)
  const on = `real GPUs, ${date.slice(0, 10)}`
  const figures: Figure[] = []

  const { moves = [], memory, comparison } = parts.moves ?? {}
  if (moves.length > 0) {
    const kept = comparison?.identical === true ? moves.length : 0
    const wanted = moves.length
    figures.push({
      figure: `moves with identical output (${on})`,
      value: kept,
      unit: 'moves',
      against: `${wanted} moves`,
      ratio: kept / wanted,
      bar: '10 of 10',
      pass: kept === wanted && wanted >= 10,
    })
    const left = Math.max(...moves.map(({ leftBytes }) => leftBytes))
    figures.push({
      figure: `memory left behind, most of all moves (${on})`,
      value: left / 2 ** 20,
      unit: 'MiB',
      against: 'idle level',
      bar: '<= 32 MiB',
      pass: left <= idleBytes,
    })
    const driver = sum(moves.map(({ driverMs }) => driverMs))
    const pause = sum(moves.map(({ pauseMs }) => pauseMs))
    const total = sum(moves.map(({ totalMs }) => totalMs))
    figures.push(
      {
        figure: `time added to the pause (${on})`,
        value: (pause - driver) / wanted,
        unit: 'ms per move',
        against: "the driver's four calls",
        ratio: pause / driver - 1,
        bar: '<= 2 %',
        pass: pause / driver - 1 <= 0.02,
      },
      {
        figure: `whole call, checks before and after included (${on})`,
        value: total / wanted,
        unit: 'ms per move',
        against: "the driver's four calls",
        ratio: total / driver - 1,
      },
    )
  }

  if (memory !== undefined) {
    const added = memory.addedKiB / 1024
    figures.push({
      figure: `host memory added by us (${on})`,
      value: added,
      unit: 'MiB',
      against: 'the application before it loads the package',
      bar: '<= 64 MiB',
      pass: added <= 64,
    })
  }

  const killed = Object.entries(parts).filter(([name]) => name.startsWith('killed-'))
  const keptAll = parts.kills?.comparison?.identical === true
  const recovered = killed.filter(([, part]) => {
    const { endedBy, stateNow } = part as { readonly endedBy?: string; readonly stateNow?: string }
    return keptAll && endedBy === 'SIGKILL' && stateNow === 'running'
  }).length
  if (killed.length > 0) {
    figures.push({
      figure: `processes recovered after a kill in the middle (${on})`,
      value: recovered,
      unit: 'kills',
      against: `${killed.length} kills`,
      ratio: recovered / killed.length,
      bar: '100 %',
      pass: recovered === killed.length,
    })
  }

  figures.push(...samplingFigures(parts, `a machine with two, ${date.slice(0, 10)}`))
  const alone = newest(/^cuda-.*-one-gpu\.json$/)
  figures.push(...samplingFigures(alone.parts, `a machine with one, ${alone.date.slice(0, 10)}`))
  return Promise.resolve(figures)
}

function samplingFigures({ nvmlSampling }: Results['parts'], on: string): Figure[] {
  const { bare, ...sampling } = nvmlSampling ?? {}
  if (bare === undefined || !isUsage(sampling)) return []
  const waking = shareOf(bare)
  const taken = shareOf(sampling) - waking
  return [
    {
      figure: `NVML sampling of one real GPU at 1 Hz, all threads of both processes (${on})`,
      value: taken * 100,
      unit: '% of a core',
      against: `besides a process that wakes once a second and samples nothing, which takes ${(waking * 100).toFixed(3)} %`,
      ratio: taken / waking,
      bar: '<= 0.1 %',
      pass: taken <= 0.001,
    },
  ]
}

function newest(pattern: RegExp): Results {
  const home = new URL('../results/', import.meta.url)
  const name = readdirSync(home)
    .filter((one) => pattern.test(one))
    .sort()
    .at(-1)
  if (name === undefined) throw new Error(`bench/results has no ${pattern.source}; make one with test/device/cuda.sh`)
  return JSON.parse(readFileSync(new URL(name, home), 'utf8')) as Results
}

const shareOf = ({ wallMs, ownMs, hostMs }: Usage): number => (ownMs + hostMs) / wallMs

const isUsage = (usage: Partial<Usage>): usage is Usage => usage.wallMs !== undefined

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

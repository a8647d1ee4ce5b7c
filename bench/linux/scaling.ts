import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { linuxDriver } from '../../packages/driver-linux/src/index.ts'
import { treeOf } from '../../packages/driver-linux/test/machines/build.ts'
import { largeMachine } from '../../packages/driver-linux/test/machines/large.ts'
import { writeTree } from '../../packages/driver-linux/test/machines/tree.ts'
import type { Figure } from '../figure.ts'

const sizes = [100, 300, 1000, 2000, 5000, 10_000]

/**
 * How the time of one look grows with the machine. One GPU in a box for every hundred devices. The best of several looks
 * counts: it is the one that other processes disturbed least.
 */
export async function measure(): Promise<Figure[]> {
  const root = mkdtempSync(join(tmpdir(), 'egpu-scaling-'))
  try {
    return figuresOf(await bestTimes(root))
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

interface Point {
  readonly devices: number
  readonly ms: number
}

/** All sizes take turns, so that a machine that gets busy is busy for all. */
async function bestTimes(root: string): Promise<readonly Point[]> {
  const best = new Map<number, number>()
  for (const devices of sizes) writeTree(treeOf(largeMachine(devices)), join(root, String(devices)))
  for (let round = 0; round < 15; round += 1) {
    // Small machines are read so fast that one busy moment spoils the look: they get more of them.
    for (const devices of sizes.flatMap((size) => Array<number>(size <= 1000 ? 5 : 1).fill(size))) {
      await using driver = linuxDriver({ sysfsRoot: join(root, String(devices)) })
      const began = performance.now()
      const { devices: gpus } = await driver.list()
      best.set(devices, Math.min(performance.now() - began, best.get(devices) ?? Infinity))
      if (gpus.length !== devices / 100) throw new Error(`found ${gpus.length} GPUs among ${devices} devices`)
    }
  }
  return [...best].map(([devices, ms]) => ({ devices, ms }))
}

function figuresOf(points: readonly Point[]): Figure[] {
  const small = points.find(({ devices }) => devices === 300)?.ms ?? Number.NaN
  const fit = determination(points)
  return [
    ...points.map(({ devices, ms }) => ({
      figure: `list() of ${devices} PCI devices`,
      value: ms,
      unit: 'ms, best look',
    })),
    {
      figure: 'list() of 300 PCI devices against its limit',
      value: small,
      unit: 'ms, best look',
      against: '15 ms',
      ratio: small / 15,
      bar: '<= 15 ms',
      pass: small <= 15,
    },
    {
      figure: 'linearity from 100 to 10,000 PCI devices',
      value: fit,
      unit: 'R²',
      against: 'a straight line',
      ratio: fit,
      bar: '>= 0.98',
      pass: fit >= 0.98,
    },
  ]
}

/** R² of the least-squares line. */
function determination(points: readonly Point[]): number {
  const meanX = mean(points.map(({ devices }) => devices))
  const meanY = mean(points.map(({ ms }) => ms))
  const covariance = mean(points.map(({ devices, ms }) => (devices - meanX) * (ms - meanY)))
  const varianceX = mean(points.map(({ devices }) => (devices - meanX) ** 2))
  const varianceY = mean(points.map(({ ms }) => (ms - meanY) ** 2))
  return covariance ** 2 / (varianceX * varianceY)
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

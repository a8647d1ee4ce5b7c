import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { Figure } from '../figure.ts'
import { measureGpu } from './child/measure-gpu.ts'

interface Recorded {
  readonly date: string
  readonly gpu: string
  readonly figures: readonly Figure[]
}

const results = new URL('../results/', import.meta.url)

/**
 * Figures of a real GPU. On a machine that has one, `EGPU_BENCH_RECORD=wgpu-h200 pnpm bench wgpu gpu` measures them and
 * writes bench/results/wgpu-h200-<date>.json; anywhere else they come from there, with their date. A machine without Node
 * or a network is measured through test/device/wgpu.sh.
 */
export async function measure(): Promise<Figure[]> {
  const record = process.env['EGPU_BENCH_RECORD']
  if (record !== undefined) {
    const recorded: Recorded = { date: new Date().toISOString().slice(0, 10), ...(await measureGpu()) }
    writeFileSync(new URL(`${record}-${recorded.date}.json`, results), `${JSON.stringify(recorded, undefined, 2)}\n`)
  }
  return readdirSync(results)
    .filter((name) => /^wgpu-.*\.json$/.test(name))
    .flatMap((name) => {
      const { date, gpu, figures } = JSON.parse(readFileSync(new URL(name, results), 'utf8')) as Recorded
      return figures.map((figure) => ({ ...figure, figure: `${figure.figure} (${gpu}, ${date})` }))
    })
}

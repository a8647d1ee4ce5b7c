import { readdirSync, readFileSync } from 'node:fs'
import type { Figure } from '../figure.ts'

interface Recorded {
  readonly date: string
  readonly gpu: string
  readonly figures: readonly Figure[]
}

/** Figures of a real GPU, as bench/wgpu/child/gpu.ts wrote them on a machine that has one. */
export async function measure(): Promise<Figure[]> {
  const results = new URL('../results/', import.meta.url)
  return readdirSync(results)
    .filter((name) => /^wgpu-.*\.json$/.test(name))
    .flatMap((name) => {
      const { date, gpu, figures } = JSON.parse(readFileSync(new URL(name, results), 'utf8')) as Recorded
      return figures.map((figure) => ({ ...figure, figure: `${figure.figure} (${gpu}, ${date})` }))
    })
}

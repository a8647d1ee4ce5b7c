import type { ComputeTarget, WorkloadNeeds } from '@egpu/core'
import { chooseTarget } from '@egpu/migrator'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

const targetCount = 1_000
const workloadCount = 10_000
const limitMs = 1

/** Choosing one of 1,000 targets for each of 10,000 workloads, each choice seeing the ones before it. */
export async function measure(): Promise<Figure[]> {
  const targets = Array.from({ length: targetCount }, (_, index) => targetOf(index))
  const used = new Map<string, { workloads: number; bytes: number }>()
  const spent: number[] = []
  let placed = 0
  for (let index = 0; index < workloadCount; index += 1) {
    const needs = needsOf(index)
    const startedAt = performance.now()
    const target = chooseTarget({ needs, targets, use: (id) => used.get(id) ?? { workloads: 0, bytes: 0 } })
    spent.push(performance.now() - startedAt)
    if (target === undefined) continue
    placed += 1
    const before = used.get(target.id) ?? { workloads: 0, bytes: 0 }
    used.set(target.id, { workloads: before.workloads + 1, bytes: before.bytes + (needs.memoryBytes ?? 0) })
  }
  const p99 = percentile(spent, 0.99)
  return [
    {
      figure: 'planner choice p99, 1,000 targets, 10,000 workloads',
      value: p99,
      unit: 'ms',
      against: `limit of ${limitMs} ms`,
      ratio: p99 / limitMs,
      bar: '<= 1 ms',
      pass: p99 <= limitMs,
    },
    {
      figure: 'planner placed of 10,000',
      value: placed,
      unit: 'workloads',
      bar: '10,000',
      pass: placed === workloadCount,
    },
  ]
}

function targetOf(index: number): ComputeTarget {
  return {
    id: `sim/gpu-${index}`,
    name: `GPU ${index}`,
    kind: 'gpu',
    runtime: index % 3 === 0 ? 'cuda' : 'webgpu',
    removable: index % 2 === 0,
    memoryBytes: (4 + (index % 4) * 8) * 2 ** 30,
    limits: { maxBufferSize: 2 ** (28 + (index % 4)), maxStorageBufferBindingSize: 2 ** (27 + (index % 4)) },
    features: index % 5 === 0 ? ['timestamp-query'] : ['timestamp-query', 'shader-f16'],
    flops: (1 + (index % 7)) * 5e12,
    memoryGBps: 200 + (index % 9) * 100,
    linkGBps: { toDevice: 2.7, fromDevice: 2.7 },
    latencyMs: 0.04,
  }
}

function needsOf(index: number): WorkloadNeeds {
  return {
    runtimes: index % 4 === 0 ? ['cuda', 'webgpu'] : ['webgpu'],
    memoryBytes: (1 + (index % 5)) * 64 * 2 ** 20,
    limits: { maxBufferSize: 2 ** 28 },
    features: index % 6 === 0 ? ['shader-f16'] : [],
  }
}

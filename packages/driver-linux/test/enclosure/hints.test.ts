import { describe, expect, it } from 'vitest'
import type { JoinHints } from '../../src/enclosure/hints.ts'
import { gpusBehindRouter, surveyOf } from '../../src/survey.ts'
import type { Survey } from '../../src/survey.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { treeOf } from '../machines/build.ts'
import { machineNamed } from '../machines/index.ts'
import { uuid } from '../machines/parts.ts'
import { memorySysfs } from '../machines/tree.ts'

async function surveyed(name: string, hints?: JoinHints): Promise<Survey> {
  return surveyOf(await readTopology(memorySysfs(treeOf(machineNamed(name)))), { hints })
}

const gpu = '0000:07:00.0'

async function joinOf(hints?: JoinHints): Promise<Survey['gpus'][number]['join'] | undefined> {
  return (await surveyed('hub-with-egpu-and-ssd', hints)).gpus.find((one) => one.gpu.address === gpu)?.join
}

describe('an ambiguous box', () => {
  it('is named with its rivals, and not guessed', async () => {
    const join = await joinOf()
    expect(join?.router).toBeUndefined()
    expect(join?.candidates.map(({ name }) => name)).toEqual(['0-101', '0-301'])
  })

  it('is settled by a tunnel event', async () => {
    const join = await joinOf({ tunnelEvents: new Map([[gpu, '0-101']]) })
    expect(join?.router?.name).toBe('0-101')
    expect(join?.evidence.map(({ signal }) => signal)).toContain('tunnel-event')
  })

  it('is settled by what appeared just before', async () => {
    const join = await joinOf({ appearedAfter: new Map([[gpu, '0-301']]) })
    expect(join?.router?.name).toBe('0-301')
  })

  it('is settled by what was known before', async () => {
    const join = await joinOf({ remembered: new Map([[gpu, { uniqueId: uuid(71), port: 'domain0/port1/port1' }]]) })
    expect(join?.router?.name).toBe('0-101')
  })

  it('is not settled by a hint about a box it cannot be', async () => {
    const join = await joinOf({ tunnelEvents: new Map([[gpu, '7-1']]) })
    expect(join?.candidates).toHaveLength(2)
  })
})

describe('gpusBehindRouter', () => {
  it('names every GPU that goes with a router, chained boxes included', async () => {
    const survey = await surveyed('two-egpus-daisy-chained')
    const behind = (name: string): readonly string[] => gpusBehindRouter(survey, name).map((one) => one.gpu.address)
    expect(behind('0-1')).toEqual(['0000:04:00.0', '0000:07:00.0'])
    expect(behind('0-301')).toEqual(['0000:07:00.0'])
    expect(behind('0-5')).toEqual([])
  })

  it('names an ambiguous GPU only when all its boxes go', async () => {
    const survey = await surveyed('hub-with-egpu-and-ssd')
    expect(gpusBehindRouter(survey, '0-1').map((one) => one.gpu.address)).toEqual([gpu])
    expect(gpusBehindRouter(survey, '0-301')).toEqual([])
  })
})

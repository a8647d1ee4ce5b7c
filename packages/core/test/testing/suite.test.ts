import { describe, expect, it } from 'vitest'
import { driverCompliance } from '../../src/testing/index.ts'
import type { ComplianceOptions, Rig, Runner } from '../../src/testing/index.ts'
import { staticRig } from './static-driver.ts'

interface Result {
  readonly rule: string
  readonly outcome: 'passed' | 'failed' | 'skipped'
  readonly reason: string
}

async function results(setup: () => Rig, options?: ComplianceOptions): Promise<Result[]> {
  const groups: string[] = []
  const tests: { rule: string; body: Parameters<Runner['it']>[1] }[] = []
  const runner: Runner = {
    describe: (name, body) => {
      groups.push(name)
      body()
      groups.pop()
    },
    it: (name, body) => tests.push({ rule: `${groups.at(-1)}: ${name}`, body }),
  }
  driverCompliance(runner, setup, options)
  const all: Result[] = []
  for (const { rule, body } of tests) {
    let result: Result = { rule, outcome: 'passed', reason: '' }
    const skip = (reason = ''): void => {
      result = { rule, outcome: 'skipped', reason }
    }
    await body({ skip }).catch((error: unknown) => {
      result = { rule, outcome: 'failed', reason: String(error) }
    })
    all.push(result)
  }
  return all
}

const badName = { name: 'Bad Name' }
const nameRule = 'capabilities: speaks a contract version that core accepts, under a kebab-case name'
const link = 'https://github.com/egpu/egpu/issues/1'

describe('driverCompliance', () => {
  it('passes the least a driver can be, and says of everything else why it was skipped', async () => {
    const all = await results(() => staticRig())
    expect(all.filter((result) => result.outcome === 'failed')).toEqual([])
    const skipped = all.filter((result) => result.outcome === 'skipped')
    expect(skipped.length).toBeGreaterThan(10)
    for (const { reason } of skipped) expect(reason).toMatch(/\S+ \S+ \S+/)
    expect(skipped.map((result) => result.reason)).toContain(
      'does not apply to this rig: the rig has no hand to unplug',
    )
  })

  it('fails a rule that is broken', async () => {
    const all = await results(() => staticRig(badName))
    expect(all.filter((result) => result.outcome === 'failed').map((result) => result.rule)).toEqual([nameRule])
  })

  it('skips a failure that is expected, naming the link', async () => {
    const all = await results(() => staticRig(badName), { expectedFailures: [{ rule: nameRule, link }] })
    const result = all.find((each) => each.rule === nameRule)
    expect(result?.outcome).toBe('skipped')
    expect(result?.reason).toContain(link)
  })

  it('turns red when an expected failure passes', async () => {
    const all = await results(() => staticRig(), { expectedFailures: [{ rule: nameRule, link }] })
    const result = all.find((each) => each.rule === nameRule)
    expect(result).toMatchObject({ outcome: 'failed' })
    expect(result?.reason).toContain('take it off the list')
  })

  it('refuses an expected failure of no rule, or without a link', () => {
    const list = (rule: string, url: string): void =>
      driverCompliance({ describe: () => undefined, it: () => undefined }, () => staticRig(), {
        expectedFailures: [{ rule, link: url }],
      })
    expect(() => list('watch: flies', link)).toThrow(TypeError)
    expect(() => list(nameRule, 'somewhere')).toThrow(TypeError)
  })

  it('gives up on a driver that never answers', async () => {
    const all = await results(() => staticRig({ probe: () => new Promise(() => undefined) }), { patienceMs: 20 })
    expect(all.find((result) => result.rule.startsWith('probe: answers'))).toMatchObject({
      outcome: 'failed',
      reason: expect.stringContaining('probe() did not end in 20 ms'),
    })
  })

  it('fails a rule whose rig cannot be disposed of', async () => {
    const broken = (): Rig => ({ ...staticRig(), [Symbol.asyncDispose]: () => Promise.reject(new Error('stuck')) })
    expect((await results(broken)).every((result) => result.outcome === 'failed')).toBe(true)
  })
})

driverCompliance({ describe, it }, () => staticRig())

import assert from 'node:assert/strict'
import { acceptedSpecVersions } from '../../driver/spec-version.ts'
import { RuntimeKind } from '../../types/target.ts'
import type { Verdict } from '../../types/verdict.ts'
import type { Theme } from '../rule.ts'

const methods = {
  health: ['sample'],
  safeRemoval: ['plan', 'run'],
  passthrough: ['plan', 'bind', 'release'],
  runtime: ['targets', 'open'],
} as const

export const capabilitiesTheme: Theme = {
  name: 'capabilities',
  rules: [
    {
      name: 'speaks a contract version that core accepts, under a kebab-case name',
      async check({ driver }) {
        assert(acceptedSpecVersions.includes(driver.specVersion), `specVersion ${driver.specVersion} is not accepted`)
        assert.match(driver.name, /^[a-z][a-z\d]*(-[a-z\d]+)*$/, 'the name is kebab-case')
      },
    },
    {
      name: 'has the methods of a capability exactly when it declares the capability',
      async check({ driver }) {
        const { health, safeRemoval, passthrough, runtimes } = driver.capabilities
        const declared = { health, safeRemoval, passthrough, runtime: runtimes.length > 0 }
        for (const [name, isDeclared] of Object.entries(declared) as [keyof typeof declared, boolean][]) {
          const member: object | undefined = driver[name]
          const claim = isDeclared ? 'declared, so it is there' : 'not declared, so it is absent'
          assert.equal(member !== undefined, isDeclared, `${name} is ${claim}`)
          if (member === undefined) continue
          for (const method of methods[name]) {
            const kind: string = typeof (member as Record<string, unknown>)[method]
            assert.equal(kind, 'function', `${name}.${method} is a method`)
          }
        }
      },
    },
    {
      name: 'declares runtimes by their names, each once',
      async check({ driver }) {
        const { runtimes } = driver.capabilities
        const known: readonly string[] = Object.values(RuntimeKind)
        for (const runtime of runtimes) assert(known.includes(runtime), `${runtime} is a RuntimeKind`)
        assert.equal(new Set(runtimes).size, runtimes.length, 'no runtime is named twice')
      },
    },
    {
      name: 'keeps its capabilities for life',
      async check(bench) {
        const { driver } = bench
        const before = structuredClone(driver.capabilities)
        await bench.soon('probe()', driver.probe())
        await bench.soon('list()', driver.list())
        assert.deepEqual(structuredClone(driver.capabilities), before)
        await bench.soon('close()', driver.close())
        assert.deepEqual(structuredClone(driver.capabilities), before)
      },
    },
    {
      name: 'gives a verdict on every device exactly when it declares verdicts',
      async check(bench) {
        const { devices } = await bench.soon('list()', bench.driver.list())
        for (const { key, verdict } of devices) {
          assert.equal(verdict !== undefined, bench.driver.capabilities.verdict, `a verdict on ${key}`)
        }
      },
    },
    {
      name: 'gives verdicts that can be: sure by 0 to 1, with their evidence, external ones with a transport',
      async check(bench) {
        const { devices } = await bench.soon('list()', bench.driver.list())
        for (const { key, verdict } of devices) if (verdict !== undefined) checkVerdict(key, verdict)
      },
    },
  ],
}

function checkVerdict(key: string, { conclusion, confidence, transport, evidence }: Verdict): void {
  assert(['external', 'internal', 'unknown'].includes(conclusion), `${key}: ${conclusion} is a conclusion`)
  assert(isShare(confidence), `${key}: a confidence of ${confidence} is not within 0 and 1`)
  assert(conclusion === 'unknown' || evidence.length > 0, `${key}: ${conclusion}, and no evidence says why`)
  assert(conclusion !== 'external' || transport !== undefined, `${key}: external, and no transport says over what`)
  for (const { signal, weight } of evidence) {
    assert(isShare(weight), `${key}: ${signal} weighs ${weight}, which is not within 0 and 1`)
  }
}

const isShare = (value: number): boolean => value >= 0 && value <= 1

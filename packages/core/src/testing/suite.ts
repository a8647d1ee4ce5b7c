import { Bench, Skip } from './bench.ts'
import type { Rig } from './rig.ts'
import type { Runner, TestContext } from './runner.ts'
import type { Rule, Theme } from './rule.ts'
import { abortTheme } from './themes/abort.ts'
import { capabilitiesTheme } from './themes/capabilities.ts'
import { disposeTheme } from './themes/dispose.ts'
import { errorsTheme } from './themes/errors.ts'
import { healthTheme } from './themes/health.ts'
import { identityTheme } from './themes/identity.ts'
import { listTheme } from './themes/list.ts'
import { probeTheme } from './themes/probe.ts'
import { runtimeTheme } from './themes/runtime.ts'
import { safeRemovalTheme } from './themes/safe-removal.ts'
import { watchTheme } from './themes/watch.ts'

const themes: readonly Theme[] = [
  capabilitiesTheme,
  probeTheme,
  listTheme,
  identityTheme,
  watchTheme,
  abortTheme,
  errorsTheme,
  healthTheme,
  runtimeTheme,
  safeRemovalTheme,
  disposeTheme,
]

/** A rule that a driver is known to break, and where that is being worked on. */
export interface ExpectedFailure {
  /** `<theme>: <rule>`, as the test is named. */
  readonly rule: string
  /** URL of the issue. */
  readonly link: string
}

export interface ComplianceOptions {
  /** How long a single wait may take, in milliseconds: 2,000 by default, more for real hardware. */
  readonly patienceMs?: number | undefined
  /** These must fail; one that passes turns the run red, so that the list never goes stale. */
  readonly expectedFailures?: readonly ExpectedFailure[] | undefined
}

/**
 * Tests that a driver keeps every rule of the contract. Hand over your runner's `describe` and `it` (vitest,
 * `node:test`) and a function that makes a fresh rig; rules that the rig has no hands for are skipped with a reason.
 * Throws `TypeError` for an expected failure that names no rule or has no link.
 */
export function driverCompliance(
  { describe, it }: Runner,
  setup: () => Promise<Rig> | Rig,
  { patienceMs = 2_000, expectedFailures = [] }: ComplianceOptions = {},
): void {
  const expected = linksByRule(expectedFailures)
  describe('driver compliance', () => {
    for (const theme of themes) {
      describe(theme.name, () => {
        for (const rule of theme.rules) {
          const link = expected.get(nameOf(theme, rule))
          it(rule.name, async (context) => {
            await report(context, link, () => checkRule(rule, setup, patienceMs))
          })
        }
      })
    }
  })
}

async function checkRule(rule: Rule, setup: () => Promise<Rig> | Rig, patienceMs: number): Promise<void> {
  await using bench = new Bench(await setup(), patienceMs)
  await rule.check(bench)
}

async function report(context: TestContext, link: string | undefined, check: () => Promise<void>): Promise<void> {
  const outcome = await check().then(
    () => undefined,
    (error: unknown) => ({ error }),
  )
  if (outcome?.error instanceof Skip) {
    skip(context, `does not apply to this rig: ${outcome.error.message}`)
    return
  }
  if (link === undefined) {
    if (outcome !== undefined) throw outcome.error
    return
  }
  if (outcome === undefined) {
    throw new Error(`this was expected to fail (${link}) and passes: take it off the list of expected failures`)
  }
  skip(context, `fails as expected, see ${link}: ${String(outcome.error)}`)
}

function skip(context: TestContext | undefined, reason: string): void {
  // A runner without skipping still has to show that nothing was checked.
  if (context?.skip === undefined) console.warn(`skipped: ${reason}`)
  else context.skip(reason)
}

function linksByRule(failures: readonly ExpectedFailure[]): ReadonlyMap<string, string> {
  const names = new Set(themes.flatMap((theme) => theme.rules.map((rule) => nameOf(theme, rule))))
  for (const { rule, link } of failures) {
    if (!names.has(rule)) throw new TypeError(`no rule is named "${rule}"; rules are:\n  ${[...names].join('\n  ')}`)
    if (!URL.canParse(link)) throw new TypeError(`the expected failure of "${rule}" needs the URL of its issue`)
  }
  return new Map(failures.map(({ rule, link }) => [rule, link]))
}

function nameOf(theme: Theme, rule: Rule): string {
  return `${theme.name}: ${rule.name}`
}

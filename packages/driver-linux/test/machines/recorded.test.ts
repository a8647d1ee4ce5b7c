import { describe, expect, it } from 'vitest'
import { linuxDriver } from '../../src/index.ts'
import { answerOf } from './answer.ts'
import { buildMachine, machines } from './index.ts'

describe.each(machines.map((machine) => [machine.name, machine] as const))('%s', (_, machine) => {
  it('is read right: verdicts, boxes, links, stages and findings', async () => {
    using built = buildMachine(machine)
    const { sysfsRoot, procRoot } = built
    await using driver = linuxDriver({ sysfsRoot, procRoot, overrides: machine.overrides })
    const answer = answerOf(await driver.list())
    expect(answer).toEqual({ ...machine.expected, findings: machine.expected.findings.toSorted() })
  })
})

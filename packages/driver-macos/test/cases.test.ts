import { describe, expect, it } from 'vitest'
import { macosDriver, plistSource } from '../src/index.ts'
import { cases } from './cases.ts'
import { FakeMac } from './fake-iokit.ts'
import { toPlist } from './registry-tree.ts'
import { summarize } from './summary.ts'

describe('the given Macs', () => {
  for (const { name, tree, systemExtensions, expected } of cases) {
    it(`sees ${name}`, async () => {
      const machine = tree()
      const mac = await FakeMac.boot(machine)
      await using live = macosDriver({ source: mac.source({ systemExtensions: async () => systemExtensions }) })
      await using dump = macosDriver({ source: plistSource(toPlist(machine), { systemExtensions }) })
      const fromKernel = await live.list()
      const fromDump = await dump.list()
      expect(summarize(fromDump)).toEqual(expected)
      expect(fromKernel).toEqual(fromDump)
      for (const finding of fromDump.findings) expect(`${finding.seen} ${finding.advice}`).not.toMatch(/undefined|\?\?/)
    })

    it(`sees the same without \`ioreg -i\`: ${name}`, async () => {
      const machine = tree()
      const plain = { withoutInheritance: true }
      await using full = macosDriver({ source: plistSource(toPlist(machine), { systemExtensions }) })
      await using bare = macosDriver({ source: plistSource(toPlist(machine, plain), { systemExtensions }) })
      expect(await bare.list()).toEqual(await full.list())
    })
  }
})

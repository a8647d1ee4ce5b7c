import assert from 'node:assert/strict'
import type { ProbeResult } from '../../driver/driver.ts'
import { Skip } from '../bench.ts'
import type { Theme } from '../rule.ts'

export const probeTheme: Theme = {
  name: 'probe',
  rules: [
    {
      name: 'answers without being asked anything else first, and the same twice',
      async check(bench) {
        const first = await bench.soon('probe()', bench.driver.probe())
        checkAnswer(first)
        const second = await bench.soon('probe()', bench.driver.probe())
        checkAnswer(second)
        assert.equal(second.usable, first.usable)
      },
    },
    {
      name: 'says in a sentence why it cannot work, instead of rejecting',
      async check(bench) {
        const { unusable } = bench.rig
        if (unusable === undefined) throw new Skip('the rig has no `unusable` driver')
        const answer = await bench.soon('probe()', unusable.probe())
        assert.equal(answer.usable, false)
        checkAnswer(answer)
        await bench.soon('close()', unusable.close())
      },
    },
  ],
}

function checkAnswer(answer: ProbeResult): void {
  assert.equal(typeof answer.usable, 'boolean', 'usable is true or false')
  if (answer.usable) return
  assert.match(answer.reason, /\S+\s+\S+\s+\S+/, 'the reason is a sentence')
}

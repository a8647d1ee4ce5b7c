import { parseArgs } from 'node:util'
import { spine } from './spine.ts'

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '1000' }, first: { type: 'string', default: '1' } },
})
const seeds = Number(values.seeds)
const first = Number(values.first)
if (!Number.isSafeInteger(seeds) || seeds < 1 || !Number.isSafeInteger(first)) {
  throw new TypeError('usage: pnpm chaos [--seeds <number from 1 up>] [--first <seed>]')
}

const outcome = await spine({
  first,
  seeds,
  onProgress: (done) => {
    if (done % 100 === 0) console.error(`${done} of ${seeds} seeds`)
  },
})
console.log(JSON.stringify(outcome))
process.exitCode = outcome.failures.length === 0 ? 0 : 1

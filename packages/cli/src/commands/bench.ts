import { EGpuError, EGpuErrorCode, EGpuManager, systemClock, type EGpuDevice } from '@egpu/core'
import { probeHands, wgpuDriver } from '@egpu/driver-wgpu'
import { probeTarget, type MeasuredRates } from '@egpu/migrator'
import type { Command } from 'commander'
import { observingDrivers } from '../machine.ts'
import { barChart, type Bar } from '../output/bar-chart.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain } from '../output/text.ts'
import { withRuntimeDirectory } from '../probe/runtime-directory.ts'
import { jsonOption, wholeNumber, type CommandContext } from './context.ts'

interface BenchOptions {
  readonly json?: boolean | undefined
  readonly budget: number
}

export function registerBench(egpu: Command, { terminal, signal }: CommandContext): void {
  egpu
    .command('bench')
    .description('measure link, memory and compute of every GPU that WebGPU opens; wakes sleeping ones')
    .option('--budget <ms>', 'how long to measure each', wholeNumber, 1_000)
    .addOption(jsonOption())
    .action((options: BenchOptions) => withRuntimeDirectory(() => bench(options, terminal, signal)))
}

interface Measurement {
  readonly name: string
  readonly deviceId: string | undefined
  readonly rates?: MeasuredRates | undefined
  readonly failure?: string | undefined
  /** What the link should carry, as far as it is known. */
  readonly expectedGBps?: number | undefined
}

async function bench({ json = false, budget }: BenchOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  await using manager = await EGpuManager.create({ drivers: [...(await observingDrivers({}, signal)), wgpuDriver()] })
  const targets = await manager.targets({ signal })
  const measured: Measurement[] = []
  for (const { id, name, deviceId } of targets) {
    terminal.progress(`measuring ${name}`)
    const device = deviceId === undefined ? undefined : manager.find(deviceId)
    measured.push({ name, deviceId, expectedGBps: expected(device), ...(await measure(manager, id, budget, signal)) })
  }
  if (measured.length === 0) {
    const reasons = manager.drivers.flatMap(({ name, reason }) => (reason === undefined ? [] : [`${name}: ${reason}`]))
    const message = ['nothing can be measured: WebGPU opens no GPU here', ...reasons].join('\n  ')
    throw new EGpuError(EGpuErrorCode.NoTarget, message)
  }
  if (json) printJson(measured, terminal)
  else show(measured, terminal)
}

const expected = (device: EGpuDevice | undefined): number | undefined => device?.link?.effectiveGBps?.toDevice

/** One target that fails is told; the others are measured all the same. */
async function measure(
  manager: EGpuManager,
  id: string,
  budgetMs: number,
  signal: AbortSignal,
): Promise<Pick<Measurement, 'rates' | 'failure'>> {
  try {
    await using target = await manager.openTarget(id, { signal })
    await using hands = await probeHands(target, { signal })
    if (hands === undefined) return { failure: `there is no way to measure a target of ${target.target.runtime}` }
    return { rates: await probeTarget(target.target, hands, { clock: systemClock, budgetMs, signal }) }
  } catch (error) {
    signal.throwIfAborted()
    return { failure: error instanceof Error ? error.message : String(error) }
  }
}

const rows: readonly [label: string, unit: string, pick: (rates: MeasuredRates) => number | undefined][] = [
  ['to the GPU', 'GB/s', ({ linkGBps }) => linkGBps?.toDevice],
  ['from the GPU', 'GB/s', ({ linkGBps }) => linkGBps?.fromDevice],
  ['its memory', 'GB/s', ({ memoryGBps }) => memoryGBps],
  ['compute', 'GFLOP/s', ({ flops }) => (flops === undefined ? undefined : flops / 1e9)],
  ['round trip', 'ms', ({ latencyMs }) => latencyMs],
]

function show(measured: readonly Measurement[], terminal: Terminal): void {
  for (const { name, failure, expectedGBps } of measured) {
    terminal.print(terminal.colors.bold(plain(name)))
    if (expectedGBps !== undefined) terminal.print(`  its link should carry about ${expectedGBps.toFixed(1)} GB/s`)
    if (failure !== undefined) terminal.print(terminal.colors.red(`  ${plain(failure)}`))
  }
  for (const [label, unit, pick] of rows) {
    const bars = measured.flatMap(({ name, rates }): Bar[] => {
      const value = rates === undefined ? undefined : pick(rates)
      return value === undefined ? [] : [{ label: plain(name), value }]
    })
    if (bars.length === 0) continue
    terminal.print()
    terminal.print(`${label} (${unit}${unit === 'ms' ? ', shorter is better' : ''})`)
    for (const line of barChart(bars, terminal.columns)) terminal.print(line)
  }
}

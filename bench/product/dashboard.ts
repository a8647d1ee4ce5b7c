import { chromium, type CDPSession, type Page } from 'playwright-core'
import { pageFiles } from '../../packages/cli/src/dashboard/page-files.ts'
import { simulatedMachine } from '../../packages/cli/src/dashboard/simulated-machine.ts'
import { startDashboard } from '../../packages/cli/src/dashboard/start.ts'
import { tool } from '../../scripts/pnpm.mjs'
import type { Figure } from '../figure.ts'

/** The bar says 10; EGPU_BENCH_MINUTES makes it shorter for a look. */
const minutes = Number(process.env['EGPU_BENCH_MINUTES'] ?? 10)
const eventsPerSecond = 1_000
const token = 'd'.repeat(64)

/** A page in Chromium under a flood of events: first paint, events that arrived, memory of both sides. */
export async function measure(): Promise<readonly Figure[]> {
  if (
    tool('turbo', ['run', 'build', '--filter=@egpu/cli', '--output-logs=errors-only', '--no-update-notifier']) !== 0
  ) {
    throw new Error('the dashboard could not be built')
  }
  const page = pageFiles()
  await using machine = await simulatedMachine(1)
  await using dashboard = await startDashboard({ machine, token, port: 0, page })
  const browser = await chromium.launch({
    executablePath: process.env['EGPU_CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  })
  try {
    const shown = await browser.newPage()
    await shown.goto(dashboard.url)
    const paint = Number(
      await shown.evaluate(
        'new Promise((resolve) => new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true }))',
      ),
    )
    const session = await shown.context().newCDPSession(shown)
    // A minute to reach the size it keeps: everything that is kept is kept up to a limit.
    await flood(machine.manager, Math.min(1, minutes / 2))
    const before = await memory(session)
    await flood(machine.manager, minutes)
    await shown.waitForTimeout(2_000)
    const after = await memory(session)
    const { received, missed } = await counts(shown)
    const total = received + missed
    return [
      { figure: 'first paint', value: paint, unit: 'ms', bar: '<= 1000 ms', pass: paint <= 1_000 },
      {
        figure: `events dropped in ${minutes} min at ${eventsPerSecond}/s`,
        value: missed,
        unit: 'events',
        against: `${total} that happened`,
        bar: '0',
        pass: missed === 0 && total >= minutes * 60 * eventsPerSecond * 0.9,
      },
      growth('memory of the page', before.page, after.page),
      growth('memory of the server', before.server, after.server),
    ]
  } finally {
    await browser.close()
  }
}

/** Reports events at the rate, in small bursts, as a busy migrator would. */
async function flood(
  manager: Awaited<ReturnType<typeof simulatedMachine>>['manager'],
  forMinutes: number,
): Promise<void> {
  const begun = performance.now()
  const total = forMinutes * 60 * eventsPerSecond
  for (let sent = 0; sent < total;) {
    const due = Math.min(total, ((performance.now() - begun) / 1_000) * eventsPerSecond)
    for (; sent < due; sent += 1) {
      manager.report({
        type: 'checkpoint-saved',
        workloadId: `work-${sent % 50}`,
        progress: sent,
        bytes: 4_096,
        pauseMs: 1,
      })
    }
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

async function memory(session: CDPSession): Promise<{ readonly page: number; readonly server: number }> {
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  globalThis.gc?.()
  return { page: usedSize, server: process.memoryUsage().heapUsed }
}

async function counts(page: Page): Promise<{ readonly received: number; readonly missed: number }> {
  const count = page.locator('#event-count')
  const read = async (name: string): Promise<number> => Number(await count.getAttribute(name))
  return { received: await read('data-received'), missed: await read('data-missed') }
}

function growth(figure: string, before: number, after: number): Figure {
  const share = after / before - 1
  return {
    figure,
    value: after / 1e6,
    unit: 'MB',
    against: `${(before / 1e6).toFixed(1)} MB after the first minute`,
    ratio: after / before,
    bar: 'grows <= 10 %',
    pass: share <= 0.1,
  }
}

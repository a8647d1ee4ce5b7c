import type { Cable } from '../../packages/mesh/test/helpers/cable.ts'
import { MeshNetwork, type MeshHost } from '../../packages/mesh/test/helpers/mesh-network.ts'
import { Network } from '../../packages/mesh/test/helpers/namespaces.ts'
import { spawn } from 'node:child_process'
import { cpus } from 'node:os'
import { percentile, type Figure } from '../figure.ts'

const pulls = 20
const breaks = 6
/** Minutes at full load without a link being given up. */
const soakMinutes = Number(process.env['EGPU_BENCH_SOAK_MINUTES'] ?? 10)

/** How long until a pulled, a silent and a one-way cable are events, and whether load alone makes one. */
export async function measure(): Promise<Figure[]> {
  const network = await Network.create({ hosts: ['a', 'b'] })
  const ends = [
    { host: 'a', interfaceName: 'thunderbolt0' },
    { host: 'b', interfaceName: 'thunderbolt0' },
  ] as const
  await using cable = await network.cable(...ends)
  const settings = { probeBytes: 0 }
  await using mesh = new MeshNetwork(network, {
    a: { cables: { thunderbolt0: {} }, settings },
    b: { cables: { thunderbolt0: {} }, settings },
  })
  await mesh.startAll()
  const a = mesh.host('a')
  const carrier = await series(
    a,
    pulls,
    () => cable.carrier(false),
    () => cable.carrier(true),
  )
  const silent = await series(
    a,
    breaks,
    () => lose(cable, 1000, 1000),
    () => lose(cable, 0, 0),
  )
  const oneWay = await series(
    a,
    breaks,
    () => lose(cable, 1000, 0),
    () => lose(cable, 0, 0),
  )
  const falseAlarms = await soak(a)
  return [
    limited('carrier loss to event, p95', percentile(carrier.ms, 0.95), 50),
    limited('carrier loss to event, p50', percentile(carrier.ms, 0.5), 50),
    limited('blackhole to event, worst', Math.max(...silent.ms), 1_500),
    limited('one-way link to event, worst', Math.max(...oneWay.ms), 1_500),
    {
      figure: 'one-way links told from silent ones',
      value: oneWay.reasons.filter((reason) => reason === 'one-way').length,
      unit: `of ${breaks}`,
      bar: `${breaks}`,
      pass: oneWay.reasons.every((reason) => reason === 'one-way'),
    },
    {
      figure: `links given up in ${soakMinutes} min at full CPU load`,
      value: falseAlarms,
      unit: 'false alarms',
      bar: '0',
      pass: falseAlarms === 0,
    },
  ]
}

async function series(
  host: MeshHost,
  count: number,
  cut: () => Promise<void>,
  mend: () => Promise<void>,
): Promise<{ readonly ms: number[]; readonly reasons: string[] }> {
  const ms: number[] = []
  const reasons: string[] = []
  for (let round = 0; round < count; round += 1) {
    await host.until(({ activePeerCount }) => activePeerCount === 1)
    // Beats have to have passed both ways before their absence can mean anything.
    await new Promise((resolve) => setTimeout(resolve, 700))
    const since = Date.now()
    await cut()
    const { at, reason } = await host.event('link-down', () => true, since)
    ms.push(at - since)
    reasons.push(reason)
    await mend()
  }
  return { ms, reasons }
}

async function lose(cable: Cable, forth: number, back: number): Promise<void> {
  await cable.loss(0, forth)
  await cable.loss(1, back)
}

async function soak(host: MeshHost): Promise<number> {
  await host.until(({ activePeerCount }) => activePeerCount === 1)
  const since = Date.now()
  const burners = cpus().map(() => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }))
  try {
    await new Promise((resolve) => setTimeout(resolve, soakMinutes * 60_000))
    return host.events.filter(({ type, at }) => type === 'link-down' && at >= since).length
  } finally {
    for (const burner of burners) burner.kill('SIGKILL')
  }
}

function limited(figure: string, value: number, limit: number): Figure {
  return {
    figure,
    value,
    unit: 'ms',
    against: `${limit} ms`,
    ratio: value / limit,
    ...(figure.includes('p50') ? {} : { bar: `<= ${limit} ms`, pass: value <= limit }),
  }
}

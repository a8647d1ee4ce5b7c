import type { Cable } from '../../packages/mesh/test/helpers/cable.ts'
import { MeshNetwork, type MeshHost } from '../../packages/mesh/test/helpers/mesh-network.ts'
import { Network } from '../../packages/mesh/test/helpers/namespaces.ts'
import { percentile, type Figure } from '../figure.ts'

const pulls = 20
const breaks = 6

/** How long until a pulled, a silent and a one-way cable are events. Takes about two minutes. */
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

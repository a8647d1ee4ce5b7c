import { spawn } from 'node:child_process'
import { cpus } from 'node:os'
import { MeshNetwork } from '../../packages/mesh/test/helpers/mesh-network.ts'
import { Network } from '../../packages/mesh/test/helpers/namespaces.ts'
import type { Figure } from '../figure.ts'

/** The bar is for ten. */
const minutes = Number(process.env['EGPU_BENCH_SOAK_MINUTES'] ?? 0)

/** Whether a machine that is busy on all cores gives up a link that is well. Only with `EGPU_BENCH_SOAK_MINUTES`. */
export async function measure(): Promise<Figure[]> {
  if (!(minutes > 0)) return []
  const network = await Network.create({ hosts: ['a', 'b'] })
  await network.join({ host: 'a', interfaceName: 'thunderbolt0' }, { host: 'b', interfaceName: 'thunderbolt0' })
  const plan = { cables: { thunderbolt0: {} }, settings: { probeBytes: 0 } }
  await using mesh = new MeshNetwork(network, { a: plan, b: plan })
  await mesh.startAll()
  const hosts = [mesh.host('a'), mesh.host('b')]
  await hosts[0]?.until(({ activePeerCount }) => activePeerCount === 1)
  // Beats have to have passed both ways before their absence can mean anything.
  await pause(1_000)
  const since = Date.now()
  const burners = cpus().map(() => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }))
  try {
    await pause(minutes * 60_000)
  } finally {
    for (const burner of burners) burner.kill('SIGKILL')
  }
  const alarms = hosts.flatMap(({ events }) => events.filter(({ type, at }) => type === 'link-down' && at >= since))
  return [
    {
      figure: `links given up in ${minutes} min at full CPU load`,
      value: alarms.length,
      unit: 'false alarms',
      against: `a process for each of ${cpus().length} cores that does nothing else`,
      bar: '0',
      pass: alarms.length === 0,
    },
  ]
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

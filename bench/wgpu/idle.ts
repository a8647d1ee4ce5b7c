import { spawn } from 'node:child_process'
import type { Figure } from '../figure.ts'
import './rig.ts'

/** A process that holds a protected device and an open target and does nothing; prints its CPU time over a while. */
const program = `
const { protectDevice, wgpuDriver } = await import('@egpu/driver-wgpu')
const driver = wgpuDriver()
const [target] = await driver.runtime.targets()
const open = await driver.runtime.open(target.id)
const device = await protectDevice()
await new Promise((resolve) => setTimeout(resolve, 2000))
const [begun, before] = [performance.now(), process.cpuUsage()]
await new Promise((resolve) => setTimeout(resolve, 10_000))
const { user, system } = process.cpuUsage(before)
console.log((user + system) / 1000 / (performance.now() - begun))
process.exit(0)`

/** What holding devices costs while nothing happens. */
export async function measure(): Promise<Figure[]> {
  const args = ['--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', program]
  const cwd = new URL('../../packages/driver-wgpu/', import.meta.url)
  const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more))
  await new Promise((resolve) => child.once('close', resolve))
  const share = Number(text)
  return [
    {
      figure: 'idle process with an open target and a protected device',
      value: share * 100,
      unit: '% of a core',
      bar: '< 1 %',
      pass: share < 0.01,
    },
  ]
}

import type { EGpuDriver } from '@egpu/core/driver'
import { cudaDriver } from '@egpu/driver-cuda'
import { linuxDriver } from '@egpu/driver-linux'
import { macosDriver } from '@egpu/driver-macos'
import { simDriver } from '@egpu/driver-sim'
import { wgpuDriver } from '@egpu/driver-wgpu'

const works: readonly [platform: string, make: () => EGpuDriver][] = [
  ['Linux', () => linuxDriver()],
  ['macOS; dumps of Macs anywhere', () => macosDriver()],
  ['Linux with an NVIDIA driver', () => cudaDriver()],
  ['wherever there is WebGPU, browsers included', () => wgpuDriver()],
  ['everywhere', () => simDriver()],
]

/** The page on what each driver can do, made from what it declares. */
export async function platformSupport(): Promise<string> {
  const rows: string[] = []
  for (const [platform, make] of works) {
    await using driver = make()
    const { hotplug, verdict, health, safeRemoval, passthrough, runtimes } = driver.capabilities
    const marks = [hotplug, verdict, health, safeRemoval, passthrough].map((has) => (has ? 'yes' : 'no'))
    const opens = runtimes.length === 0 ? 'no' : runtimes.join(', ')
    rows.push(`| \`${driver.name}\` | ${platform} | ${[...marks, opens].join(' | ')} |`)
  }
  return `# Platform support

Made from the capabilities that the drivers declare (\`pnpm run docs\` writes it, a test compares it). Whether a driver
works on one machine is for its \`probe()\` to say, with the reason when it does not.

| driver | where | hot-plug events | verdict with evidence | health | safe removal | passthrough | opens |
|---|---|---|---|---|---|---|---|
${rows.join('\n')}

No driver observes on Windows; WebGPU works there. What was tried on what is said in the README.
`
}

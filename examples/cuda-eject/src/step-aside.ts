import { EGpuError } from '@egpu/core'
import { cudaDriver, listCudaProcesses, planCudaLeave, resumeParked } from '@egpu/driver-cuda'
import type { CudaOptions } from '@egpu/driver-cuda'

/** Parks every CUDA program of a machine that can be parked, waits for `plugged`, and lets them go on. */
export async function stepAside(
  print: (line: string) => void,
  plugged: () => Promise<void>,
  options: CudaOptions = {},
): Promise<void> {
  await using driver = cudaDriver(options)
  const probe = await driver.probe()
  if (!probe.usable) return print(`nothing to do: ${probe.reason}`)
  for (const { key, gpu } of (await driver.list()).devices) {
    print(gpu.name ?? key)
    for (const { processes, bytes, ...leaving } of await planCudaLeave(key, { ...options, alwaysPark: true })) {
      const names = processes.map(({ name, pid }) => `${name} (pid ${pid})`).join(', ')
      print(`  ${names}, ${Math.round(bytes / 1e6)} MB: ${leaving.how === 'stay' ? leaving.reason : leaving.how}`)
    }
  }
  for (const program of await listCudaProcesses(options)) {
    if (program.state !== 'running') continue
    try {
      const { pids, pauseMs } = await program.park()
      print(`parked ${pids.join(', ')} in ${Math.round(pauseMs)} ms; the GPU is free`)
    } catch (error) {
      // One of a group that is parked already, or one that cannot be: it goes on.
      if (!EGpuError.is(error, 'EGPU_DEVICE_BUSY')) print(error instanceof Error ? error.message : String(error))
    }
  }
  await plugged()
  for (const { processes, resumed } of await resumeParked(options)) {
    print(`${processes.map(({ pid }) => pid).join(', ')} ${resumed ? 'goes on' : 'stays parked'}`)
  }
}

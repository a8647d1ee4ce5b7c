import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { CudaContext } from '../context.ts'
import type { Mapping, Member } from './steps.ts'

/** Memory that another process is just giving back is free a moment later. */
const attempts = 3
const retryMs = 500

/**
 * Resolves once the GPUs that a process is restored to have room for it. A restore that runs out of memory cannot be
 * tried again, ever (driver 580; github.com/NVIDIA/cuda-checkpoint/issues/44), so it must not be begun. Rejects with
 * `EGPU_DEVICE_NOT_FOUND`, `EGPU_DEVICE_LOST` or `EGPU_TARGET_INCOMPATIBLE`.
 */
export async function awaitRoom(context: CudaContext, { pid, name, memory }: Member, mapping: Mapping): Promise<void> {
  for (const { uuid, bytes } of memory) {
    const target = mapping?.get(uuid) ?? uuid
    for (let attempt = 1; ; attempt += 1) {
      const free = await freeBytes(context, target)
      if (free === undefined || free >= bytes) break
      if (attempt === attempts) {
        throw new EGpuError(
          EGpuErrorCode.TargetIncompatible,
          `${name} (pid ${pid}) needs ${bytes} bytes on GPU ${target} and ${free} are free; close something there and try again`,
          { driver: 'cuda', deviceId: target },
        )
      }
      await context.clock.sleep(retryMs)
    }
  }
}

/** `undefined` when it cannot be known without waking the GPU. */
async function freeBytes(context: CudaContext, uuid: string): Promise<number | undefined> {
  let gpu = context.gpus.touchable(uuid)
  if (gpu === undefined) {
    await context.gpus.look({})
    gpu = context.gpus.touchable(uuid)
  }
  if (gpu === 'asleep') return undefined
  if (gpu === undefined) {
    throw new EGpuError(EGpuErrorCode.DeviceNotFound, `GPU ${uuid} is not there: plug it in and try again`, {
      driver: 'cuda',
      deviceId: uuid,
    })
  }
  return await context.gpus.freeBytes(gpu, {})
}

import { createHash } from 'node:crypto'
import { wgpuDriver } from '@egpu/driver-wgpu'
import type { WorkSetup } from '@egpu/migrator/node'
import { Field } from './field.ts'

/** WebGPU work for `survive`, as the variable EGPU_FIELD says; its result is the SHA-256 of the field. */
export default function work(): WorkSetup {
  const workload = new Field(JSON.parse(process.env['EGPU_FIELD'] ?? '') as ConstructorParameters<typeof Field>[0])
  return {
    drivers: [wgpuDriver()],
    workload,
    config: { cpu: false, checkpointIntervalMs: 250 },
    result: () =>
      createHash('sha256')
        .update(workload.result ?? '')
        .digest('hex'),
  }
}

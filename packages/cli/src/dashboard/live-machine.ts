import { hostname } from 'node:os'
import { openMachine, recordingOf, type MachineOptions } from '../machine.ts'
import { CudaPrograms } from './cuda-programs.ts'
import type { DashboardMachine } from './machine.ts'
import { MeshPeers } from './mesh-peers.ts'

/** This machine, or a recorded one, watched. The owner closes it. */
export async function liveMachine(options: MachineOptions, signal: AbortSignal): Promise<DashboardMachine> {
  const recordedAt = recordingOf(options)
  const manager = await openMachine(options, signal)
  try {
    await manager.startMonitoring({ signal, healthIntervalMs: 1_000 })
  } catch (error) {
    await manager.close()
    throw error
  }
  const close = (): Promise<void> => manager.close()
  const watched = { manager, workloads: () => [] }
  if (recordedAt !== undefined) return { ...watched, name: recordedAt, [Symbol.asyncDispose]: close }
  const cuda = new CudaPrograms(manager)
  const mesh = new MeshPeers()
  manager.addGuest(cuda)
  return {
    ...watched,
    name: hostname(),
    cuda,
    mesh,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([cuda[Symbol.asyncDispose](), mesh[Symbol.asyncDispose]()])
      await close()
    },
  }
}

import type { AbortOptions } from '@egpu/core'
import { changedAt, hostPlatform, vulkanEnvironment } from '../host.ts'
import { driverManifests, namedDrivers, onlyDrivers, swiftShaderManifest } from './driver-manifests.ts'
import { explainFailure } from './explain.ts'
import { lookInChild } from './look-in-child.ts'

/** A driver that is left out, and what it did to the process that tried it. */
export interface BrokenDriver {
  readonly manifest: string
  readonly reason: string
}

/** Which Vulkan drivers this process may load, found out by other processes. */
export interface DriverChoice {
  /** Variables to look for GPUs with; `undefined` when there is none to be found. */
  readonly gpus: Readonly<Record<string, string>> | undefined
  /** Variables to look for the CPU with: a browser's SwiftShader, when no driver shows one. */
  readonly cpu: Readonly<Record<string, string>> | undefined
  /** Why there is nothing at all. */
  readonly refusal: string | undefined
  readonly broken: readonly BrokenDriver[]
}

export interface ChoiceOptions extends AbortOptions {
  readonly flags: readonly string[]
  readonly cpuFallback: boolean
  readonly timeoutMs: number
}

const choices = new Map<string, DriverChoice>()

/** What was found out for these drivers and settings before, or is now. */
export async function knownChoice(options: ChoiceOptions): Promise<DriverChoice> {
  return choices.get(keyOf(options)) ?? (await chooseDrivers(options))
}

/**
 * Tries the installed drivers in a process of their own. When one of them crashes or hangs it, each is tried alone, and
 * the bad ones are left out: a driver that stayed behind when its GPU was unplugged must not hide the others.
 */
export async function chooseDrivers(options: ChoiceOptions): Promise<DriverChoice> {
  const key = keyOf(options)
  const choice = await choose(options)
  // A GPU that is not there now may be back at the next look.
  if (choice.gpus === undefined) choices.delete(key)
  else choices.set(key, choice)
  return choice
}

async function choose(options: ChoiceOptions): Promise<DriverChoice> {
  const [cpu, together] = await Promise.all([cpuDriver(options), lookInChild(options, {})])
  // Where no process can be started there is only one way to find out.
  if (together === undefined || together.kind === 'listed') {
    return { gpus: {}, cpu, refusal: undefined, broken: [] }
  }
  const refusal = explainFailure(together, hostPlatform())
  const none = { gpus: undefined, cpu, refusal: cpu === undefined ? refusal : undefined, broken: [] }
  const manifests = driverManifests()
  if (together.kind === 'load-failed' || manifests.length === 0) return none
  const outcomes = await Promise.all(manifests.map((manifest) => lookInChild(options, onlyDrivers([manifest]))))
  const good: string[] = []
  const broken: BrokenDriver[] = []
  for (const [index, outcome] of outcomes.entries()) {
    const manifest = manifests[index] as string
    if (outcome === undefined || outcome.kind === 'listed') good.push(manifest)
    // Showing no device is no fault, unless all together show less than one alone: loaders stumble over bad JSON.
    else if (outcome.kind !== 'nothing' || together.kind === 'nothing') {
      broken.push({ manifest, reason: explainFailure(outcome, hostPlatform()) })
    }
  }
  if (good.length === 0) return together.kind === 'nothing' ? none : { ...none, broken }
  // Only what works alone and together is let into the application's own process.
  const gpus = onlyDrivers(good)
  const rest = await lookInChild(options, gpus)
  return rest?.kind === 'listed' ? { gpus, cpu, refusal: undefined, broken } : { ...none, broken }
}

/** A user who names the drivers gets those and no other. */
async function cpuDriver(options: ChoiceOptions): Promise<Readonly<Record<string, string>> | undefined> {
  if (!options.cpuFallback || hostPlatform() !== 'linux' || namedDrivers() !== undefined) return undefined
  const manifest = swiftShaderManifest()
  if (manifest === undefined) return undefined
  const variables = onlyDrivers([manifest])
  return (await lookInChild(options, variables))?.kind === 'listed' ? variables : undefined
}

/** A driver that is installed anew is tried anew. */
function keyOf({ flags, cpuFallback }: ChoiceOptions): string {
  const installed = driverManifests().map((path) => [path, changedAt(path)])
  return JSON.stringify([flags, cpuFallback, vulkanEnvironment(), installed])
}

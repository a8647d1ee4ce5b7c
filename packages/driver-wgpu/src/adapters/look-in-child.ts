import type { AbortOptions } from '@egpu/core'
import { resolvePackage, runInChild } from '../host.ts'
import { nobody } from './listing.ts'
import type { LookOutcome } from './explain.ts'

/** Prints Dawn's answer as one JSON line, whatever it is. */
const script = `
const [url, flags, native] = process.argv.slice(1)
const say = (result) => process.stdout.write(JSON.stringify(result))
import(url).then(
  async ({ create }) => {
    // The same calls that the application's process will make, when koffi is there.
    if (native) await import(native).then(({ listPhysicalDevices }) => listPhysicalDevices()).catch(() => {})
    try {
      await create(JSON.parse(flags)).requestAdapter()
      say({ kind: 'nothing' })
    } catch (error) {
      say({ kind: 'listed', message: error.message })
    }
  },
  (error) => say({ kind: 'load-failed', message: error.message }),
)`

/**
 * Looks for adapters from a process of its own. Loading Vulkan loads every driver that is installed, and one that
 * belongs to an absent GPU may crash or hang: then it is that process which does, not the application's. It also is
 * the only place where one can read what the Vulkan loader has to say: it prints to the process's standard error.
 *
 * `undefined` when no process can be started here.
 */
export async function lookInChild(
  { flags, timeoutMs, signal }: AbortOptions & { readonly flags: readonly string[]; readonly timeoutMs: number },
  environment: Readonly<Record<string, string>>,
): Promise<LookOutcome | undefined> {
  const url = resolvePackage('webgpu')
  if (url === undefined) {
    return { kind: 'load-failed', message: 'it is not installed; it is an optional peer: npm install webgpu' }
  }
  const wanted = JSON.stringify([...flags, `adapter=${nobody}`])
  const result = await runInChild(script, [url, wanted, resolvePackage('#native/library.js') ?? ''], {
    timeoutMs,
    signal,
    environment,
  })
  signal?.throwIfAborted()
  if (result === undefined) return undefined
  if (result.stdout !== '') return { ...(JSON.parse(result.stdout) as LookOutcome), log: result.stderr } as LookOutcome
  if (result.signal === 'SIGKILL') return { kind: 'timed-out', afterMs: timeoutMs }
  return { kind: 'crashed', by: result.signal ?? `exit status ${result.status}`, log: result.stderr }
}

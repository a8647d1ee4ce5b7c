/**
 * The one door to Node. Everything here is looked up at run time and may be missing, so that the package loads in a
 * browser; no other file of "." knows that Node exists.
 */
interface ChildResult {
  readonly status: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
}

interface Builtins {
  readonly child_process: {
    spawn(
      command: string,
      args: readonly string[],
      options: {
        readonly stdio: readonly string[]
        readonly env: Record<string, string | undefined>
        readonly windowsHide: boolean
      },
    ): Child
  }
  readonly module: { createRequire(from: string): { resolve(id: string): string } }
  readonly url: { pathToFileURL(path: string): { readonly href: string } }
}

interface Child {
  readonly stdout: Readable
  readonly stderr: Readable
  once(event: 'error', listener: (error: Error) => void): void
  once(event: 'close', listener: (status: number | null, signal: string | null) => void): void
  kill(signal: string): void
}

interface Readable {
  setEncoding(encoding: string): void
  on(event: 'data', listener: (text: string) => void): void
}

interface NodeProcess {
  readonly execPath: string
  readonly env: Record<string, string | undefined>
  readonly platform: string
  getBuiltinModule?<K extends keyof Builtins>(name: K): Builtins[K] | undefined
}

const node = (globalThis as { readonly process?: NodeProcess }).process

function builtin<K extends keyof Builtins>(name: K): Builtins[K] | undefined {
  return node?.getBuiltinModule?.(name)
}

/** The operating system as Node names it; `undefined` in a browser. */
export function hostPlatform(): string | undefined {
  return node?.platform
}

/** The variables that choose Vulkan drivers and layers. */
export function vulkanEnvironment(): readonly (readonly [string, string | undefined])[] {
  return Object.entries(node?.env ?? {}).filter(([name]) => name.startsWith('VK_'))
}

/** Where an installed package begins, as an import URL; `undefined` when it is not installed or this is a browser. */
export function resolvePackage(name: string): string | undefined {
  const module = builtin('module')
  const url = builtin('url')
  if (module === undefined || url === undefined) return undefined
  try {
    return url.pathToFileURL(module.createRequire(import.meta.url).resolve(name)).href
  } catch {
    return undefined
  }
}

/**
 * Runs a script in a Node process of its own, which may crash without harm. Never rejects: `undefined` when no process
 * can be started here. After `timeoutMs`, or when `signal` aborts, the process is killed.
 */
export async function runInChild(
  script: string,
  args: readonly string[],
  options: { readonly timeoutMs: number; readonly signal: AbortSignal | undefined },
): Promise<ChildResult | undefined> {
  const processes = builtin('child_process')
  if (node === undefined || processes === undefined) return undefined
  // In Electron `execPath` is the application; NODE_OPTIONS may load what only the parent should.
  const env = { ...node.env, ELECTRON_RUN_AS_NODE: '1', NODE_OPTIONS: undefined }
  const child = processes.spawn(node.execPath, ['-e', script, '--', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
    windowsHide: true,
  })
  const kill = (): void => child.kill('SIGKILL')
  const timer = setTimeout(kill, options.timeoutMs)
  options.signal?.addEventListener('abort', kill, { once: true })
  let [stdout, stderr] = ['', '']
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8')
  child.stdout.on('data', (text) => void (stdout += text))
  child.stderr.on('data', (text) => void (stderr += text))
  try {
    return await new Promise((resolve) => {
      child.once('error', () => resolve(undefined))
      child.once('close', (status, signal) => resolve({ status, signal, stdout, stderr }))
    })
  } finally {
    clearTimeout(timer)
    options.signal?.removeEventListener('abort', kill)
  }
}

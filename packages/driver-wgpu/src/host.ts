/**
 * The one door to Node. Everything here is looked up at run time and may be missing, so that the package loads in a
 * browser; no other file of "." knows that Node exists.
 */
export interface ChildResult {
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
  readonly fs: {
    existsSync(path: string): boolean
    readdirSync(path: string): readonly string[]
    statSync(path: string): { readonly mtimeMs: number; isDirectory(): boolean }
  }
  readonly os: { availableParallelism(): number; homedir(): string }
  readonly url: { pathToFileURL(path: string): { readonly href: string } }
  readonly worker_threads: { readonly Worker: new (file: string, options: object) => Thread }
}

/** A thread of Node's that runs one file. */
export interface Thread {
  on(event: 'message' | 'error' | 'exit', listener: (value: unknown) => void): void
  postMessage(message: unknown): void
  /** Whether it keeps the process alive. */
  ref(): void
  unref(): void
  terminate(): Promise<unknown>
}

interface Child {
  readonly stdout: Readable
  readonly stderr: Readable
  unref(): void
  once(event: 'error', listener: (error: Error) => void): void
  once(event: 'close', listener: (status: number | null, signal: string | null) => void): void
  kill(signal: string): void
}

interface Readable {
  setEncoding(encoding: string): void
  destroy(): void
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

/** One variable of this process's environment; `undefined` also when it is empty. */
export function environmentVariable(name: string): string | undefined {
  const value = node?.env[name]
  return value === '' ? undefined : value
}

/** Calls `work`, which must be done when it returns, with other variables. */
export function withEnvironment<T>(variables: Readonly<Record<string, string>>, work: () => T): T {
  if (node === undefined) return work()
  const { env } = node
  const before = Object.keys(variables).map((name) => [name, env[name]] as const)
  Object.assign(env, variables)
  try {
    return work()
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete env[name]
      else env[name] = value
    }
  }
}

export function homeDirectory(): string | undefined {
  return builtin('os')?.homedir()
}

/** Files with this ending in a directory, or the file itself; nothing where there is nothing. */
export function filesAt(path: string, ending: string): readonly string[] {
  const fs = builtin('fs')
  try {
    if (fs === undefined || !fs.existsSync(path)) return []
    if (!fs.statSync(path).isDirectory()) return [path]
    const names = fs.readdirSync(path).filter((name) => name.endsWith(ending))
    return [...names].sort().map((name) => `${path}/${name}`)
  } catch {
    return []
  }
}

/** When a file was last changed; 0 when it cannot be told. */
export function changedAt(path: string): number {
  try {
    return builtin('fs')?.statSync(path).mtimeMs ?? 0
  } catch {
    return 0
  }
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

/** What src/native/library.js gives. */
export interface NativeLibrary {
  addressOf(view: ArrayBufferView): bigint
  listPhysicalDevices(): unknown
}

/** The native part of this package; `undefined` in a browser, or where its optional dependency koffi has no binary. */
export async function loadNative(): Promise<NativeLibrary | undefined> {
  const url = resolvePackage('#native/library.js')
  if (url === undefined) return undefined
  try {
    return (await import(/* @vite-ignore */ /* webpackIgnore: true */ url)) as NativeLibrary
  } catch {
    return undefined
  }
}

/** Starts a thread that runs a file of src/native and does not keep the process alive; `undefined` in a browser. */
export function startThread(file: string): Thread | undefined {
  const threads = builtin('worker_threads')
  const module = builtin('module')
  if (threads === undefined || module === undefined) return undefined
  const path = module.createRequire(import.meta.url).resolve(`#native/${file}`)
  // No loader hooks or preloads of the application's: they cost each thread a second.
  const thread = new threads.Worker(path, { execArgv: [], env: {} })
  thread.unref()
  return thread
}

/** Cores that this process may use; 1 where nobody says. */
export function coreCount(): number {
  return builtin('os')?.availableParallelism() ?? 1
}

/** What a process is run with, beyond its program. */
export interface ChildOptions {
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  /** Variables on top of this process's own. */
  readonly environment?: Readonly<Record<string, string>> | undefined
  /** A command, with its arguments, that starts the process in another setting. */
  readonly launcher?: readonly string[] | undefined
}

/**
 * Runs a file of src/native in a Node process of its own, which may crash without harm. Never rejects: `undefined` when
 * no process can be started here. After `timeoutMs`, or when `signal` aborts, the process is killed.
 */
export async function runNative(
  file: string,
  args: readonly string[],
  options: ChildOptions,
): Promise<ChildResult | undefined> {
  const module = builtin('module')
  if (module === undefined) return undefined
  return await runNode([module.createRequire(import.meta.url).resolve(`#native/${file}`), ...args], options)
}

/** The same with a script. */
export async function runInChild(
  script: string,
  args: readonly string[],
  options: ChildOptions,
): Promise<ChildResult | undefined> {
  return await runNode(['-e', script, '--', ...args], options)
}

async function runNode(args: readonly string[], options: ChildOptions): Promise<ChildResult | undefined> {
  const processes = builtin('child_process')
  if (node === undefined || processes === undefined) return undefined
  // In Electron `execPath` is the application; NODE_OPTIONS may load what only the parent should.
  const env = { ...node.env, ...options.environment, ELECTRON_RUN_AS_NODE: '1', NODE_OPTIONS: undefined }
  const [command, ...rest] = [...(options.launcher ?? []), node.execPath, ...args] as [string, ...string[]]
  const child = processes.spawn(command, rest, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
    windowsHide: true,
  })
  let [stdout, stderr] = ['', '']
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8')
  child.stdout.on('data', (text) => void (stdout += text))
  child.stderr.on('data', (text) => void (stderr += text))
  return await new Promise((resolve) => {
    const end = (result: ChildResult | undefined): void => {
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', giveUp)
      resolve(result)
    }
    // A process that hangs in a dead driver may not even die of SIGKILL: nobody waits for it any more.
    const giveUp = (): void => {
      child.kill('SIGKILL')
      child.unref()
      for (const stream of [child.stdout, child.stderr]) stream.destroy()
      end({ status: null, signal: 'SIGKILL', stdout, stderr })
    }
    const timer = setTimeout(giveUp, options.timeoutMs)
    options.signal?.addEventListener('abort', giveUp, { once: true })
    child.once('error', () => end(undefined))
    child.once('close', (status, signal) => end({ status, signal, stdout, stderr }))
  })
}

import { execFileSync, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LibraryOptions } from '../src/index.ts'

const sources = fileURLToPath(new URL('./fake-cuda/', import.meta.url))

interface Built {
  readonly nvmlLibrary: string
  readonly cudaLibrary: string
  readonly systemLibrary: string
  readonly victim: string
  readonly ctl: string
}

/** Compiles the fake libraries once for each state of their sources. */
function build(): Built {
  const hash = createHash('sha256')
  for (const name of readdirSync(sources).sort()) hash.update(name).update(readFileSync(join(sources, name)))
  const home = join(tmpdir(), `egpu-fake-cuda-${process.getuid?.()}-${hash.digest('hex').slice(0, 16)}`)
  if (!existsSync(home)) {
    // Several test files start at once; whoever is first puts the finished directory in place.
    const scratch = mkdtempSync(join(tmpdir(), 'egpu-fake-cuda-build-'))
    const cc = (output: string, flags: readonly string[], ...files: readonly string[]): void => {
      const inputs = [...files, 'state.c'].map((file) => join(sources, file))
      execFileSync('cc', ['-O1', '-Wall', '-Wextra', '-Werror', ...flags, '-o', join(scratch, output), ...inputs])
    }
    cc('libcuda.so', ['-shared', '-fPIC'], 'cuda.c')
    cc('libnvidia-ml.so', ['-shared', '-fPIC'], 'nvml.c')
    cc('libkernel.so', ['-shared', '-fPIC'], 'kernel.c')
    cc('victim', ['-pthread'], 'victim.c')
    cc('ctl', [], 'ctl.c')
    try {
      renameSync(scratch, home)
    } catch {
      rmSync(scratch, { recursive: true })
    }
  }
  return {
    nvmlLibrary: join(home, 'libnvidia-ml.so'),
    cudaLibrary: join(home, 'libcuda.so'),
    systemLibrary: join(home, 'libkernel.so'),
    victim: join(home, 'victim'),
    ctl: join(home, 'ctl'),
  }
}

/** A program on a fake GPU. */
export interface Victim {
  readonly pid: number
  readonly child: ChildProcess
  /** Everything it printed, once it has ended by itself. */
  readonly output: Promise<readonly string[]>
  readonly lines: readonly string[]
  /** Has it end after the step it is at, and gives everything it printed. */
  finish(): Promise<readonly string[]>
}

export interface VictimOptions {
  readonly gpu?: number
  readonly bytes?: number
  readonly steps?: number
  readonly stepMs?: number
  readonly traits?: readonly ('uvm' | 'badly' | 'managed' | 'mig' | 'busy' | 'only' | 'event' | 'nccl')[]
  readonly environment?: Readonly<Record<string, string>>
  readonly detached?: boolean
}

const bus = ['06', '07', '08', '09']

/** A machine of fake GPUs: libraries to hand over, programs that run on it, and hands that change it. */
export class FakeMachine implements Disposable {
  readonly home: string = mkdtempSync(join(tmpdir(), 'egpu-cuda-'))
  readonly sysfsRoot: string = join(this.home, 'sys')
  /** In place of /dev. */
  readonly devRoot: string = join(this.home, 'dev')
  readonly stateDirectory: string = join(this.home, 'state')
  readonly built: Built = build()
  readonly #before = process.env['EGPU_FAKE_CUDA']
  readonly #victims = new Set<ChildProcess>()
  readonly #groups = new Set<number>()

  constructor(gpus = 2) {
    process.env['EGPU_FAKE_CUDA'] = join(this.home, 'machine')
    process.env['EGPU_FAKE_DEV'] = this.devRoot
    this.ctl('create', gpus)
    mkdirSync(join(this.devRoot, 'shm'), { recursive: true })
    for (const name of ['nvidiactl', 'nvidia0', 'nvidia1', 'nvidia2', 'nvidia3']) {
      writeFileSync(join(this.devRoot, name), '')
    }
    writeFileSync(join(this.devRoot, 'nvidia-uvm'), new Uint8Array(2 ** 21))
    for (const name of ['nvmlLibrary', 'cudaLibrary', 'systemLibrary'] as const) {
      symlinkSync(this.built[name], join(this.home, basename(this.built[name])))
    }
    mkdirSync(join(this.sysfsRoot, 'bus/pci/drivers/nvidia'), { recursive: true })
    for (let index = 0; index < gpus; index += 1) this.plug(index)
  }

  /** Each machine has paths of its own, so that no process of one is taken for another's. */
  get libraries(): Required<LibraryOptions> {
    const here = (library: string): string => join(this.home, basename(library))
    const { nvmlLibrary, cudaLibrary, systemLibrary } = this.built
    return {
      nvmlLibrary: here(nvmlLibrary),
      cudaLibrary: here(cudaLibrary),
      systemLibrary: here(systemLibrary),
      devRoot: this.devRoot,
    }
  }

  get options(): Required<LibraryOptions> & { readonly sysfsRoot: string; readonly stateDirectory: string } {
    return { ...this.libraries, sysfsRoot: this.sysfsRoot, stateDirectory: this.stateDirectory }
  }

  ctl(...args: readonly (string | number)[]): string {
    return execFileSync(this.built.ctl, args.map(String), { encoding: 'utf8' }).trim()
  }

  /** As NVML and CUDA name it. */
  uuid(index: number): string {
    const hex = Array.from({ length: 16 }, (_, k) => (16 * (index + 1) + k).toString(16).padStart(2, '0')).join('')
    return `GPU-${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }

  address(index: number): string {
    return `0000:${bus[index]}:00.0`
  }

  plug(index: number): void {
    const device = join(this.sysfsRoot, 'devices', this.address(index))
    mkdirSync(join(device, 'power'), { recursive: true })
    const files = {
      vendor: '0x10de',
      device: '0x2684',
      subsystem_vendor: '0x1458',
      subsystem_device: '0x40bf',
      'power/runtime_status': 'active',
    }
    for (const [name, value] of Object.entries(files)) writeFileSync(join(device, name), `${value}\n`)
    this.ctl('gpu', index, 'present', 1)
    symlinkSync(device, join(this.sysfsRoot, 'bus/pci/drivers/nvidia', this.address(index)))
  }

  unplug(index: number): void {
    this.ctl('gpu', index, 'present', 0)
    rmSync(join(this.sysfsRoot, 'bus/pci/drivers/nvidia', this.address(index)))
  }

  setPower(index: number, status: 'active' | 'suspended'): void {
    writeFileSync(join(this.sysfsRoot, 'devices', this.address(index), 'power/runtime_status'), `${status}\n`)
  }

  /** Resolves when it computes. */
  async start(options: VictimOptions = {}): Promise<Victim> {
    const { gpu = 0, bytes = 2 ** 30, steps = 0, stepMs = 5, traits = [], environment, detached = true } = options
    const child = spawn(this.built.victim, [gpu, bytes, steps, stepMs, ...traits].map(String), {
      detached,
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#victims.add(child)
    const lines: string[] = []
    let rest = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const parts = (rest + text).split('\n')
      rest = parts.pop() ?? ''
      lines.push(...parts)
    })
    const output = new Promise<readonly string[]>((resolve) => child.once('close', () => resolve(lines)))
    await this.until('a victim to be ready', () => lines.length > 0)
    const finish = (): Promise<readonly string[]> => {
      child.kill('SIGTERM')
      return output
    }
    return { pid: child.pid as number, child, output, lines, finish }
  }

  /** Two programs of one process group; `join` starts another one in it. All pids. */
  async startGroup(): Promise<{ readonly pids: readonly number[]; readonly join: () => Promise<number> }> {
    const one = '"$0" 0 1048576 0 5 >/dev/null &'
    const script = `${one} ${one} echo $(jobs -p); read; ${one} echo $!; wait`
    const shell = spawn('bash', ['-c', script, this.built.victim], {
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#groups.add(shell.pid as number)
    shell.stdout.setEncoding('utf8')
    const next = async (): Promise<number[]> => {
      const text = await new Promise<string>((resolve) => shell.stdout.once('data', resolve))
      const pids = text.trim().split(' ').map(Number)
      await this.until('victims to compute', () => pids.every((pid) => this.process(pid) !== 'gone'))
      return pids
    }
    const pids = await next()
    const join = async (): Promise<number> => {
      shell.stdin.write('\n')
      return (await next())[0] as number
    }
    return { pids, join }
  }

  /** What a victim prints when nobody disturbs it. */
  undisturbed(steps: number): readonly string[] {
    return execFileSync(this.built.victim, ['0', '1024', String(steps), '0'], { encoding: 'utf8' })
      .trim()
      .split('\n')
  }

  /** State (0 running, 1 locked, 2 checkpointed, 3 failed) and GPU of a process, from the fake driver itself. */
  process(pid: number): string {
    return this.ctl('process', pid)
  }

  /** Pids of our children that make calls for this machine. */
  hosts(): readonly number[] {
    return readdirSync('/proc/self/task')
      .flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, 'utf8').split(' '))
      .filter((pid) => pid !== '' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(this.home))
      .map(Number)
      .filter((pid) => ![...this.#victims].some((victim) => victim.pid === pid))
  }

  /** The calls the fake driver got: `lock <pid> <result>`. */
  log(): readonly string[] {
    return this.ctl('log')
      .split('\n')
      .filter((line) => line !== '')
  }

  async until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = Date.now() + 60_000
    while (!(await condition())) {
      if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  [Symbol.dispose](): void {
    for (const child of this.#victims) child.kill('SIGKILL')
    for (const group of this.#groups) process.kill(-group, 'SIGKILL')
    // Whoever hangs in a library of ours goes on.
    this.ctl('hang-nvml', 0)
    this.ctl('hang-init', 0)
    this.ctl('go-on')
    if (this.#before === undefined) delete process.env['EGPU_FAKE_CUDA']
    else process.env['EGPU_FAKE_CUDA'] = this.#before
    rmSync(this.home, { recursive: true, force: true })
  }
}

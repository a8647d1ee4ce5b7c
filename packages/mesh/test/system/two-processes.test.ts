import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EtcdCluster, noEtcd } from '../helpers/etcd.ts'
import { Network, noNamespaces } from '../helpers/namespaces.ts'

const [example, egpu] = ['../../../../examples/two-host-mesh/src/main.ts', '../../../cli/src/bin.ts'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
) as [string, string]

/** A program on one of the hosts, to which words are said, and what it says. */
class Program {
  readonly exited: Promise<number | null>
  readonly #child: ChildProcess
  readonly #said: string[] = []
  #read = 0

  constructor(child: ChildProcess) {
    this.#child = child
    this.exited = new Promise((resolve) => child.once('exit', resolve))
    if (child.stdout === null) throw new Error('no stdout')
    createInterface(child.stdout).on('line', (line) => this.#said.push(line))
  }

  say(word: string): void {
    this.#child.stdin?.write(`${word}\n`)
  }

  /** The next line that matches, and what it has in its brackets. */
  async hears(pattern: RegExp): Promise<string> {
    for (;;) {
      for (; this.#read < this.#said.length; this.#read += 1) {
        const found = pattern.exec(this.#said[this.#read] as string)
        if (found === null) continue
        this.#read += 1
        return found[1] ?? found[0]
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  /** What is done once it is done. */
  async does(word: string): Promise<void> {
    this.say(word)
    await this.hears(new RegExp(`^${word}: done$`))
  }

  /** Says a word again and again until the answer is the one that is waited for. */
  async until(word: string, answer: RegExp): Promise<void> {
    for (;;) {
      this.say(word)
      if (answer.test(await this.hears(/.*/))) return
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.exited
  }

  /** Ends as at the end of what is typed. */
  async close(): Promise<void> {
    this.#child.stdin?.end()
    expect(await this.exited).toBe(0)
  }
}

const reason = noNamespaces ?? noEtcd

/** Two hosts that a person paired on the command line, each with the example running, as its README says. */
describe('work in a process of its own on each of two hosts', () => {
  const home = mkdtempSync(join(tmpdir(), 'egpu-two-processes-'))
  let network: Network
  beforeAll(async () => {
    if (reason !== undefined) return
    network = await Network.create({ hosts: ['a', 'b', 'witness'], lan: true })
    const shown = run('a', egpu, 'mesh', 'pair', '--lan')
    const taken = run('b', egpu, 'mesh', 'pair', await shown.hears(/egpu mesh pair ([\d-]+) --lan/), '--lan')
    expect(await Promise.all([shown.exited, taken.exited])).toEqual([0, 0])
  })
  afterAll(async () => {
    await network?.close()
    rmSync(home, { recursive: true, force: true })
  })

  const run = (host: string, ...args: readonly string[]): Program => {
    const env = { ...process.env, EGPU_MESH_DIR: join(home, host) }
    return new Program(
      network.spawn(host, process.execPath, ['--conditions=@egpu/source', '--import=tsx', ...args], env),
    )
  }
  const start = async (host: 'a' | 'b', etcd?: EtcdCluster): Promise<Program> => {
    const program = run(host, example, 'host', ...(etcd === undefined ? [] : [etcd.endpoints.join()]))
    await program.hears(/^The peer is here/)
    return program
  }

  it('goes on at the other when its eGPU is pulled, and is theirs also after this host was killed', async ({
    skip,
  }) => {
    skip(reason !== undefined, reason)
    const [a, b] = await Promise.all([start('a'), start('b')])
    for (const word of ['begin', 'standby', 'pull', 'move']) await a.does(word)
    await b.hears(/^runs on eGPU of/)
    await a.kill()
    const again = await start('a')
    again.say('begin')
    await again.hears(/ owns count-primes: ask it to hand it over$/)
    await again.close()
    await b.close()
  })

  it('whose host is killed is taken by nobody alone where there is no witness: a person has to say so', async ({
    skip,
  }) => {
    skip(reason !== undefined, reason)
    const [a, b] = await Promise.all([start('a'), start('b')])
    for (const word of ['begin', 'standby']) await a.does(word)
    await a.kill()
    b.say('begin')
    await b.hears(/ owns count-primes: /)
    // Until it is noticed that it is gone, it counts as alive.
    await b.until('begin', /cannot be reached, and no host is promoted alone.*three etcd members/)
    b.say('bury')
    await b.hears(/^runs on eGPU of/)
    await b.close()
  })

  it('whose host is killed goes on at the one that stood by where an etcd says so', async ({ skip }) => {
    skip(reason !== undefined, reason)
    await using etcd = await EtcdCluster.start(network, network.hosts)
    const [a, b] = await Promise.all([start('a', etcd), start('b', etcd)])
    for (const word of ['begin', 'standby']) await a.does(word)
    await a.kill()
    await b.hears(/^runs on eGPU of/)
    await b.close()
  })
})

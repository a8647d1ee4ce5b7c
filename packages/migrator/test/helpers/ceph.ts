import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Ceph's own S3 gateway with a cluster of one daemon each behind it, all in memory and on loopback. */
export interface Ceph extends AsyncDisposable {
  readonly url: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

const needed = ['ceph-mon', 'ceph-osd', 'radosgw']

/** What is not installed, as a sentence; `undefined` when all is there. */
export function cephMissing(): string | undefined {
  const missing = needed.filter((name) => spawnSync(name, ['--version']).error !== undefined)
  return missing.length === 0 ? undefined : `${missing.join(', ')} not installed`
}

/** Starts a cluster and makes a user; some 20 seconds. */
export async function startCeph(): Promise<Ceph> {
  const home = await mkdtemp(join(tmpdir(), 'egpu-ceph-'))
  const children: ChildProcess[] = []
  const at = (name: string): string => join(home, name)
  const stop = async (): Promise<void> => {
    for (const child of children.toReversed()) child.kill('SIGKILL')
    await rm(home, { recursive: true, force: true })
  }
  const call = (command: string, ...args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(command, ['-c', at('ceph.conf'), ...args], {
      encoding: 'utf8',
      timeout: 120_000,
    })
    if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${stderr}`)
    return stdout
  }
  const daemon = (command: string, ...args: readonly string[]): void => {
    const child = spawn(command, ['-c', at('ceph.conf'), '--foreground', ...args], { stdio: 'ignore' })
    children.push(child)
  }
  try {
    const [monitor, gateway] = await freePorts(2)
    const fsid = randomUUID()
    await Promise.all(['mon', 'osd'].map((name) => mkdir(at(name))))
    await writeFile(at('ceph.conf'), configuration(home, fsid, monitor ?? 0))
    call('ceph-authtool', at('admin.keyring'), ...admin)
    call('ceph-authtool', at('mon.keyring'), '--create-keyring', '--gen-key', '-n', 'mon.', '--cap', 'mon', 'allow *')
    call('ceph-authtool', at('mon.keyring'), '--import-keyring', at('admin.keyring'))
    const address = `[v2:127.0.0.1:${monitor}]`
    call('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', address, at('monmap'))
    call('ceph-mon', '--mkfs', '-i', 'a', '--monmap', at('monmap'), '--keyring', at('mon.keyring'))
    daemon('ceph-mon', '-i', 'a')
    const osd = randomUUID()
    call('ceph', '--connect-timeout', '60', 'osd', 'new', osd, '0')
    call(
      'ceph',
      'auth',
      'get-or-create',
      'osd.0',
      'mon',
      'allow profile osd',
      'osd',
      'allow *',
      '-o',
      at('osd/keyring'),
    )
    call('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', osd)
    daemon('ceph-osd', '-i', '0')
    daemon('radosgw', '-n', 'client.admin', '--rgw-frontends', `beast endpoint=127.0.0.1:${gateway}`)
    const url = `http://127.0.0.1:${gateway}`
    await answers(url)
    const keys = { accessKeyId: 'access', secretAccessKey: 'secret' }
    const user = ['user', 'create', '--uid=test', '--display-name=test']
    call(
      'radosgw-admin',
      '-n',
      'client.admin',
      ...user,
      `--access-key=${keys.accessKeyId}`,
      `--secret=${keys.secretAccessKey}`,
    )
    return { url, ...keys, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
  }
}

const admin = [
  '--create-keyring',
  '--gen-key',
  '-n',
  'client.admin',
  ...['mon', 'osd', 'mgr'].flatMap((service) => ['--cap', service, 'allow *']),
]

function configuration(home: string, fsid: string, monitorPort: number): string {
  return `[global]
fsid = ${fsid}
mon host = [v2:127.0.0.1:${monitorPort}/0]
mon initial members = a
public addr = 127.0.0.1
auth allow insecure global id reclaim = true
keyring = ${home}/admin.keyring
run dir = ${home}
log file = ${home}/$name.log
admin socket =
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon max pg per osd = 1000
[mon]
mon data = ${home}/mon
keyring = ${home}/mon/keyring
mon data avail crit = 1
[osd]
osd data = ${home}/osd
keyring = ${home}/osd/keyring
osd objectstore = memstore
memstore device bytes = 1073741824
`
}

async function answers(url: string): Promise<void> {
  for (let tries = 0; tries < 240; tries += 1) {
    const response = await fetch(url).catch(() => undefined)
    if (response !== undefined) return
    await sleep(500)
  }
  throw new Error(`${url} does not answer`)
}

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer()
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      return server
    }),
  )
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

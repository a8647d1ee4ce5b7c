import { EGpuErrorCode, EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import {
  embeddedCoordinator,
  etcdRegistry,
  linuxInventory,
  loadIdentity,
  macosInventory,
  placement,
  receiveFiles,
  RemoteMigrator,
  sendFile,
  temporaryIdentity,
  ThunderboltMesh,
} from '@egpu/mesh'
import type { MeshOptions, PeerConnections, RemoteMigratorOptions } from '@egpu/mesh'
import { memoryStore } from '@egpu/migrator'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pair } from './helpers/planes.ts'
import { Tally } from './remote/tally.ts'

/** What JavaScript lets through. */
const nonsense = (value: unknown): never => value as never
const target = { id: 'gpu', name: 'GPU', kind: 'gpu', runtime: 'cuda', removable: true }
const someId = '1'.repeat(64)

/** Servers and sockets of this process. */
const running = (): readonly string[] => process.getActiveResourcesInfo().filter((kind) => /TCP|UDP/.test(kind))
/** What was closed takes a moment to be gone. */
const nothingRuns = (): Promise<void> => expect.poll(running).toEqual([])

describe('a wrong argument is a TypeError that names it', () => {
  it.each<readonly [unknown, string]>([
    [null, 'the options of a mesh must be an object, not null'],
    ['~/mesh', 'the options of a mesh must be an object, not "~/mesh"'],
    [{ directory: 7 }, 'directory must be a text that is not empty, not 7'],
    [{ directory: '' }, 'directory must be a text that is not empty, not ""'],
    [{ identity: 'key' }, 'identity must be an identity such as loadIdentity() gives, not "key"'],
    [{ identity: {} }, 'identity must be an identity such as loadIdentity() gives, not an object of another kind'],
    [{ isPaired: true }, 'isPaired must be a function, not true'],
    [{ name: '\n' }, 'name must be a name to read, not "\\n"'],
    [{ port: -1 }, 'port must be a whole number from 0 to 65535, not -1'],
    [{ port: 65_536 }, 'port must be'],
    [{ port: '80' }, 'port must be a whole number from 0 to 65535, not "80"'],
    [{ staticPeers: 'b:47413' }, 'staticPeers must be a list of texts, not "b:47413"'],
    [{ staticPeers: [7] }, 'staticPeers must be a list of texts, not such a list'],
    [{ staticPeers: ['b:0'] }, '"b:0" is no address of a peer'],
    [{ lan: 'yes' }, 'lan must be true or false, not "yes"'],
    [{ targets: target }, 'targets must be a list of targets that peers can take, not this one'],
    [{ targets: [{ ...target, memoryBytes: 0.5 }] }, 'the memoryBytes of target 0 cannot be true'],
    [{ inventory: {} }, 'inventory must be a function, not an object of another kind'],
    [{ hostNetwork: 'eth0' }, 'hostNetwork must be a function, not "eth0"'],
    [{ visitor: 1 }, 'visitor must be true or false, not 1'],
    [{ settleMs: -1 }, 'settleMs must be a number from 0 up, not -1'],
    [{ settleMs: Number.NaN }, 'settleMs must be a number from 0 up, not NaN'],
    [{ probeBytes: -1 }, 'probeBytes must be a whole number from 0 to 1073741824, not -1'],
    [{ probeBytes: 2 ** 31 }, 'probeBytes must be'],
    [{ signal: { aborted: false } }, 'signal must be an AbortSignal, not an object of another kind'],
    [{ hostTag: 'a' }, 'hostTag must be a host tag of 16 hex digits (or left out), not "a"'],
    [{ hostTag: '' }, 'hostTag must be'],
    [{ hostTag: '0123456789ABCDEF' }, 'hostTag must be'],
    [{ hostTag: '0123456789abcdef0' }, 'hostTag must be'],
  ])('ThunderboltMesh.discover(%j)', async (options, message) => {
    const discovered = ThunderboltMesh.discover(
      (typeof options === 'object' && options !== null
        ? { identity: temporaryIdentity(), settleMs: 0, port: 0, ...options }
        : options) as MeshOptions,
    )
    await expect(discovered).rejects.toThrow(TypeError)
    await expect(discovered).rejects.toThrow(message)
    await nothingRuns()
  })

  describe('of a mesh', () => {
    let mesh: ThunderboltMesh
    beforeAll(async () => {
      mesh = await ThunderboltMesh.discover({
        identity: temporaryIdentity(),
        isPaired: () => false,
        settleMs: 0,
        port: 0,
      })
    })
    afterAll(() => mesh.close())

    it.each<readonly [string, (of: ThunderboltMesh) => unknown, string]>([
      ['bestPeer', (of) => of.bestPeer(nonsense('memory')), 'what to choose a peer by must be an object'],
      ['bestPeer', (of) => of.bestPeer(nonsense({ for: 'speed' })), 'for must be one of latency, bandwidth, memory'],
      ['offer', (of) => of.offer(nonsense({ 0: target })), 'targets must be a list of targets'],
      ['offer', (of) => of.offer(nonsense([target, target])), 'two targets have the same id'],
      ['measure', (of) => of.measure(nonsense(0)), 'linkId must be a text'],
      ['measure', (of) => of.measure('link', { bytes: 0 }), 'bytes must be a whole number from 1 to 1073741824, not 0'],
      ['measure', (of) => of.measure('link', nonsense({ signal: 1 })), 'signal must be an AbortSignal, not 1'],
      ['pairWith', (of) => of.pairWith('123'), 'a pairing code has eight digits'],
      ['pairWith', (of) => of.pairWith('1234-5678', nonsense(3_000)), 'the options of pairWith must be an object'],
      ['trust', (of) => of.trust(nonsense({ id: 'b', name: 'b', pairedAt: '' })), 'id must be the id of a host'],
      ['trust', (of) => of.trust(nonsense({ id: someId })), 'name must be a text'],
      ['forget', (of) => of.forget('b'), 'peerId must be the id of a host, which is 64 hex digits, not "b"'],
      ['on', (of) => of.on(nonsense('peer-conected'), () => {}), 'the type of an event must be one of peer-connected,'],
      ['on', (of) => of.on('peer-lost', nonsense('listener')), 'a listener must be a function, not "listener"'],
      ['next', (of) => of.next(nonsense('lost')), 'the type of an event must be one of'],
      ['next', (of) => of.next('peer-lost', nonsense({ where: true })), 'where must be a function, not true'],
      ['events', (of) => of.events(nonsense({ signal: 'stop' })), 'signal must be an AbortSignal, not "stop"'],
    ])('%s', async (_name, call, message) => {
      // oxlint-disable-next-line typescript/await-thenable -- some throw and some reject
      const called = (async () => await call(mesh))()
      await expect(called).rejects.toThrow(TypeError)
      await expect(called).rejects.toThrow(message)
    })
  })

  it.each<readonly [string, (control: PeerConnections) => unknown, string]>([
    ['sendFile', () => sendFile(nonsense({}), someId, 'file'), 'control must be the PeerConnections of a mesh'],
    ['sendFile', (control) => sendFile(control, 'tower', 'file'), 'peerId must be the id of a host'],
    ['sendFile', (control) => sendFile(control, someId, nonsense(undefined)), 'path must be a text'],
    ['receiveFiles', (control) => receiveFiles(control, '', () => {}), 'folder must be a text'],
    ['receiveFiles', (control) => receiveFiles(control, '.', nonsense(undefined)), 'onFile must be a function'],
    ['loadIdentity', () => loadIdentity(nonsense(undefined)), 'directory must be a text'],
    ['linuxInventory', () => linuxInventory(nonsense(null)), 'root must be a text that is not empty, not null'],
    ['macosInventory', () => macosInventory(nonsense({ thunderbolt: {} })), 'hardwarePorts must be the text'],
    [
      'placement',
      () => placement(nonsense({}), { workloadId: 'job', needs: { runtimes: [] } }),
      'hosts must be a list',
    ],
    ['placement', () => placement([], nonsense({ workloadId: 'job' })), 'needs must be what a workload needs'],
    [
      'etcdRegistry',
      () => etcdRegistry(nonsense({ hosts: 'http://a', self: 'a' })),
      'hosts must be a list of addresses',
    ],
    ['etcdRegistry', () => etcdRegistry({ hosts: [], self: 'a' }), 'hosts must be a list of addresses'],
    ['etcdRegistry', () => etcdRegistry({ hosts: ['http://a'], self: '' }), 'self must be a text'],
    ['etcdRegistry', () => etcdRegistry({ hosts: ['http://a'], self: 'a', leaseSeconds: 0.5 }), 'leaseSeconds must be'],
  ])('%s', async (_name, call, message) => {
    await using planes = await pair()
    // oxlint-disable-next-line typescript/await-thenable -- some throw and some reject
    const called = (async () => await call(planes.a.plane))()
    await expect(called).rejects.toThrow(TypeError)
    await expect(called).rejects.toThrow(message)
  })

  const remoteRig = async (work: (options: RemoteMigratorOptions) => Promise<void>): Promise<void> => {
    await withParts(work)
    await nothingRuns()
  }
  const withParts = async (work: (options: RemoteMigratorOptions) => Promise<void>): Promise<void> => {
    await using planes = await pair()
    await using manager = await EGpuManager.create({ drivers: [simDriver()] })
    const peers = planes.a.plane
    await using coordinator = await embeddedCoordinator({ peers })
    await work({ peers, manager, coordinator, store: memoryStore(), kinds: { tally: (id) => new Tally(id) } })
  }

  it.each<readonly [string, (good: RemoteMigratorOptions) => unknown, string]>([
    ['nothing', () => undefined, 'the options of a remote migrator must be an object, not undefined'],
    ['the mesh itself', (good) => ({ ...good, peers: {} }), 'peers must be the PeerConnections of a mesh'],
    ['no manager', (good) => ({ ...good, manager: undefined }), 'manager must be an EGpuManager, not undefined'],
    [
      'a coordinator that was not awaited',
      (good) => ({ ...good, coordinator: Promise.resolve(good.coordinator) }),
      'not a promise of one: await it',
    ],
    ['a path as store', (good) => ({ ...good, store: './checkpoints' }), 'store must be a CheckpointStore such as'],
    ['no kinds', (good) => ({ ...good, kinds: undefined }), 'kinds must be an object, not undefined'],
    ['work in place of what makes it', (good) => ({ ...good, kinds: { tally: {} } }), 'kinds.tally must be a function'],
    ['no path of tokens', (good) => ({ ...good, tokenPath: '' }), 'tokenPath must be a text that is not empty, not ""'],
    ['words for yes', (good) => ({ ...good, encrypted: 'no' }), 'encrypted must be true or false, not "no"'],
    ['settings of the migrator', (good) => ({ ...good, migration: { downtimeMs: -1 } }), 'downtimeMs must be'],
  ])('RemoteMigrator.open: %s, and nothing is left running or handled', (_name, change, message) =>
    remoteRig(async (good) => {
      const opened = RemoteMigrator.open(nonsense(change(good)))
      await expect(opened).rejects.toThrow(TypeError)
      await expect(opened).rejects.toThrow(message)
      await using _again = await RemoteMigrator.open(good)
    }),
  )

  it('a second RemoteMigrator on one mesh, and the first goes on', () =>
    remoteRig(async (good) => {
      await using first = await RemoteMigrator.open(good)
      await expect(RemoteMigrator.open(good)).rejects.toThrow(/are handled already/)
      const run = await first.run('tally', 'job')
      await run.close()
    }))

  it('what a RemoteMigrator is to run, and nobody owns it then', () =>
    remoteRig(async (good) => {
      const { coordinator } = good
      const kinds = { ...good.kinds, fixed: () => new Tally('always'), none: () => nonsense({ id: 'job' }) }
      await using remote = await RemoteMigrator.open({ ...good, kinds })
      await expect(remote.run('tally', '')).rejects.toThrow('workloadId must be a text of 1 to 1024 characters, not ""')
      await expect(remote.run('sort', 'job')).rejects.toThrow("this host has no code for work of kind 'sort'")
      await expect(remote.run('fixed', 'job')).rejects.toThrow(
        "kinds.fixed has to make work with the id 'job', not 'always'",
      )
      await expect(remote.run('none', 'job')).rejects.toThrow(
        'what kinds.none makes must be a Checkpointable, not one without',
      )
      expect(() => remote.onRun(nonsense(undefined))).toThrow('a listener must be a function, not undefined')
      for await (const state of coordinator.watch('job', { signal: AbortSignal.timeout(60_000) })) {
        expect(state).toEqual({ kind: 'free', lastToken: 0 })
        break
      }
      const starts = await Promise.allSettled([remote.run('tally', 'job'), remote.run('tally', 'job')])
      expect(starts.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
      const [run] = remote.runs
      await expect(remote.run('tally', 'job')).rejects.toThrow('job runs here already')
      await expect(run?.standBy('tower')).rejects.toThrow('peerId must be the id of a host')
      await expect(run?.moveToPeer(nonsense(undefined))).rejects.toThrow('peerId must be the id of a host')
      await run?.close()
    }))
})

it('leaves nothing behind when it is given up before it has begun', async () => {
  const stop = new AbortController()
  let release: (() => void) | undefined
  const inventory = async (): Promise<never> => {
    stop.abort(new Error('given up'))
    await new Promise<void>((resolve) => (release = resolve))
    throw new Error('no inventory')
  }
  const options = { identity: temporaryIdentity(), isPaired: () => false, port: 0, inventory, signal: stop.signal }
  await expect(ThunderboltMesh.discover(options)).rejects.toThrow('given up')
  release?.()
  // For what would begin now to begin.
  await new Promise((resolve) => setTimeout(resolve, 200))
  await nothingRuns()
})

it('a closed mesh shows no code and takes none', async () => {
  const mesh = await ThunderboltMesh.discover({
    identity: temporaryIdentity(),
    isPaired: () => false,
    settleMs: 0,
    port: 0,
  })
  await mesh.close()
  await expect(mesh.openPairing()).rejects.toMatchObject({ code: EGpuErrorCode.Closed })
  await expect(mesh.pairWith('1234-5678')).rejects.toMatchObject({ code: EGpuErrorCode.Closed })
})

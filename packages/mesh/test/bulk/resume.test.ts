import { open, readFile, readdir } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { describeFile } from '../../src/bulk/describe.ts'
import { chunkRefs } from '../../src/bulk/manifest.ts'
import { pullFile } from '../../src/bulk/pull-file.ts'
import { pull } from '../../src/bulk/pull.ts'
import type { PullReport, PullSource } from '../../src/bulk/pull.ts'
import { randomFrom } from '../helpers/random.ts'
import { cuttingRelay } from './cutting-relay.ts'
import type { CuttingRelay, RelayPlan } from './cutting-relay.ts'
import { offerFile, randomFile, sha256, temporaryDirectory } from './helpers.ts'
import type { OfferOptions, Sender } from './helpers.ts'

const chunkBytes = 65_536
const fileBytes = 24 * chunkBytes + 1_003

/** Nothing but a cut ends a connection, however busy the machine is. */
const patient = { stallMs: 60_000, patienceMs: 60_000 }

/** Beside content: a welcome per connection and a head per answer. */
const mostHeadsBytes = 1_024

interface Rig extends AsyncDisposable {
  readonly path: string
  readonly to: string
  readonly bytes: Buffer
  readonly sender: Sender
  readonly relays: readonly CuttingRelay[]
  /** The file as offered, to be reached through the relays only. */
  readonly source: PullSource
}

/** A sender behind a relay for each plan: loopback has an address for each. */
async function rig(plans: readonly RelayPlan[], options: OfferOptions): Promise<Rig> {
  const home = await temporaryDirectory()
  const path = join(home.path, 'a')
  const bytes = await randomFile(path, fileBytes)
  const sender = await offerFile(path, options)
  const { port } = sender.server.address
  const relays = await Promise.all(plans.map((plan, index) => cuttingRelay(`127.0.0.${index + 2}`, port, plan)))
  return {
    path,
    to: join(home.path, 'b'),
    bytes,
    sender,
    relays,
    source: { ...sender.source, links: relays.map(({ host }) => ({ name: host, host })) },
    async [Symbol.asyncDispose]() {
      for (const relay of relays) await relay[Symbol.asyncDispose]()
      await sender[Symbol.asyncDispose]()
      await home[Symbol.asyncDispose]()
    },
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function overLinks({ perLink }: PullReport): number {
  return sum([...perLink.values()])
}

describe.each([1, 2])('bytes that arrived before a cut, schedule %i,', (seed) => {
  it.each([true, false])('are not sent again within a pull over three links, encrypted: %s', async (encrypted) => {
    const random = randomFrom(seed)
    let cutsLeft = 9
    const nextCut = (): number | undefined => (cutsLeft-- > 0 ? 5_000 + Math.floor(random(200_000)) : undefined)
    await using it = await rig([{ nextCut }, { nextCut }, { nextCut }], { encrypted })
    const report = await pullFile(it.source, it.sender.ref, { to: it.to, ...patient })
    expect(sha256(await readFile(it.to))).toBe(sha256(it.bytes))
    expect(sum(it.relays.map(({ cuts }) => cuts))).toBeGreaterThan(3)
    expect(report).toMatchObject({ bytes: fileBytes, reusedBytes: 0 })
    expect(overLinks(report)).toBe(fileBytes)
    if (encrypted) return
    const passedBytes = sum(it.relays.map((relay) => relay.passedBytes))
    expect(passedBytes).toBeLessThan(fileBytes + it.sender.ref.byteLength + mostHeadsBytes)
  })

  it('are not sent again by one pull after another, each over two links that are cut', async () => {
    const random = randomFrom(seed)
    const nextCut = (): number => 5_000 + Math.floor(random(300_000))
    await using it = await rig([{ nextCut }, { nextCut }], { encrypted: false })
    let pulled = 0
    let attempts = 0
    for (;;) {
      attempts += 1
      const cutsBefore = sum(it.relays.map(({ cuts }) => cuts))
      const ticket: PullSource['ticket'] = async (options) => {
        // A link that was cut stays down for the rest of the attempt.
        if (sum(it.relays.map(({ cuts }) => cuts)) > cutsBefore) throw denied
        return it.source.ticket(options)
      }
      const outcome = await pullFile({ ...it.source, ticket }, it.sender.ref, { to: it.to, ...patient }).catch(
        (error: unknown) => {
          if (error !== denied) throw error
          return undefined
        },
      )
      if (outcome === undefined) continue
      pulled = outcome.bytes + outcome.reusedBytes
      break
    }
    expect(attempts).toBeGreaterThan(2)
    expect(pulled).toBe(fileBytes)
    expect(sha256(await readFile(it.to))).toBe(sha256(it.bytes))
    const passedBytes = sum(it.relays.map((relay) => relay.passedBytes))
    expect(passedBytes).toBeLessThan(fileBytes + attempts * (it.sender.ref.byteLength + mostHeadsBytes))
    expect((await readdir(dirname(it.to))).sort()).toEqual(['a', 'b'])
  })
})

const denied = new EGpuError(EGpuErrorCode.PermissionDenied, 'the link stays down')

/** A pull whose only link is cut after so many bytes of the file, and stays down. */
async function cutOnce(it: Rig): Promise<void> {
  const [relay] = it.relays
  const ticket: PullSource['ticket'] = async (options) => {
    if ((relay?.cuts ?? 0) > 0) throw denied
    return it.source.ticket(options)
  }
  await expect(pullFile({ ...it.source, ticket }, it.sender.ref, { to: it.to, ...patient })).rejects.toBe(denied)
}

/** What `cutOnce` left. */
async function openPart({ to }: Rig): Promise<FileHandle> {
  const names = await readdir(dirname(to))
  return open(join(dirname(to), names.find((name) => name.endsWith('.part')) ?? ''), 'r+')
}

/** Connections in order: the manifest's is not cut, the file's first is, later ones are not. */
function cutTheFile(afterBytes: number): RelayPlan {
  let connections = 0
  return { nextCut: () => ((connections += 1) === 2 ? afterBytes : undefined) }
}

it('a beginning that was spoilt on the disk is found out, and its chunk fetched whole', async () => {
  await using it = await rig([cutTheFile(chunkBytes * 3.5)], { encrypted: false })
  await cutOnce(it)
  const part = await openPart(it)
  // The fourth chunk came in part.
  await part.write(Buffer.from([it.bytes[3 * chunkBytes]! ^ 1]), 0, 1, 3 * chunkBytes)
  await part.close()
  const report = await pullFile(it.source, it.sender.ref, { to: it.to, ...patient })
  expect(sha256(await readFile(it.to))).toBe(sha256(it.bytes))
  expect(report).toMatchObject({ bytes: fileBytes - 3 * chunkBytes, reusedBytes: 3 * chunkBytes })
})

it.each([
  ['is no JSON', 'nope'],
  ['is a list', '[1, 2]'],
  ['names lengths that cannot be', JSON.stringify({ ['a'.repeat(64)]: 5, x: -1 })],
  ['is endless', ' '.repeat(2 ** 17)],
])('a note of what came in part that %s is no help and no harm', async (_, note) => {
  await using it = await rig([cutTheFile(chunkBytes * 3.5)], { encrypted: false })
  await cutOnce(it)
  const part = await openPart(it)
  await part.truncate(fileBytes)
  await part.write(note, fileBytes)
  await part.close()
  const report = await pullFile(it.source, it.sender.ref, { to: it.to, ...patient })
  expect(sha256(await readFile(it.to))).toBe(sha256(it.bytes))
  expect(report).toMatchObject({ bytes: fileBytes - 3 * chunkBytes, reusedBytes: 3 * chunkBytes })
})

it('chunks that a link spoils are fetched anew over another', async () => {
  await using it = await rig([{ spoils: true }, {}], { encrypted: false })
  const chunks = chunkRefs(await describeFile(it.path, { chunkBytes }))
  const taken = new Map<number, string>()
  const report = await pull(
    it.source,
    chunks,
    async ({ offset }, bytes) => void taken.set(offset, sha256(bytes)),
    patient,
  )
  expect([...taken].sort(([a], [b]) => a - b)).toEqual(chunks.map(({ offset, id }) => [offset, id]))
  expect(report.perLink.get('127.0.0.3')).toBe(fileBytes)
  expect(report.bytes).toBe(fileBytes)
})

it('chunks that the only link spoils are given up after the second time', async () => {
  await using it = await rig([{ spoils: true }], { encrypted: false })
  await expect(pullFile(it.source, it.sender.ref, { to: it.to, ...patient })).rejects.toMatchObject({
    code: EGpuErrorCode.MalformedData,
    message: expect.stringContaining('other bytes than it announced') as string,
  })
})

it('a sender that speaks version 1 only is asked for whole chunks', async () => {
  let cutsLeft = 3
  const nextCut = (): number | undefined => (cutsLeft-- > 0 ? chunkBytes * 2.5 : undefined)
  await using it = await rig([{ nextCut }], { encrypted: false })
  const { port, certificate } = it.sender.server.address
  const older = { ...it.source, address: { port, certificate } }
  const report = await pullFile(older, it.sender.ref, { to: it.to, ...patient })
  expect(sha256(await readFile(it.to))).toBe(sha256(it.bytes))
  expect(report).toMatchObject({ bytes: fileBytes, reusedBytes: 0 })
  expect(overLinks(report)).toBeGreaterThan(fileBytes)
})

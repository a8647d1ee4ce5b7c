import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Clock, ComputeTarget } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import type { MeasuredRates } from './rates.ts'

/** What a probe needs to be able to do on an open target. Small buffers; freed by disposing of the hands. */
export interface ProbeHands extends AsyncDisposable {
  /** Copies bytes into the device's own memory and resolves once they are there, not when they are merely queued. */
  write(bytes: Uint8Array, options?: AbortOptions): Promise<void>
  /** Reads back the first bytes of what was written last. */
  read(byteLength: number, options?: AbortOptions): Promise<Uint8Array>
  /** Computes so many floating-point operations, and nothing else to speak of. */
  compute?(flops: number, options?: AbortOptions): Promise<void>
  /** Moves so many bytes through the device's own memory. */
  stream?(byteLength: number, options?: AbortOptions): Promise<void>
}

export interface ProbeOptions extends AbortOptions {
  readonly clock: Clock
  /** How long it may take in all. Default 100. */
  readonly budgetMs?: number | undefined
}

/** A copy that takes this long has outgrown its latency. */
const enoughMs = 2

const latencyRounds = 5

const firstBytes = 64 * 2 ** 10
const mostBytes = 8 * 2 ** 20
const firstFlops = 1e7

/**
 * More than this did not go over the link: a benchmark that took a host buffer for the GPU's reported 8.5 GB/s over
 * Thunderbolt 3 (clpeak issue 38). PCIe 4.0 x4, the most a cable carries, is 7.9 GB/s; PCIe 5.0 x16 is 63.
 */
const fastestGBps = { removable: 8, internal: 64 }

/**
 * Measures a target in at most `budgetMs`: latency and bandwidth both ways, compute and memory where the hands can. What
 * was written is read back and compared. What is not measured when the time is up is left out, and whatever still runs
 * is abandoned. Rejects with `EGPU_TIMEOUT` when not even the link was measured by then, and with
 * `EGPU_MALFORMED_DATA` when other bytes come back, or faster ones than a link can carry: then they never reached the
 * device.
 */
export async function probeTarget(
  target: ComputeTarget,
  hands: ProbeHands,
  options: ProbeOptions,
): Promise<MeasuredRates> {
  const { clock, signal, budgetMs = 100 } = options
  let measured: MeasuredRates = {}
  const learn = (more: MeasuredRates): void => void (measured = { ...measured, ...more })
  try {
    await withDeadline((inner) => measure(target, hands, { clock, budgetMs, signal: inner }, learn), {
      clock,
      ms: budgetMs,
      signal,
      what: `measuring ${target.name}`,
    })
  } catch (error) {
    if (measured.linkGBps === undefined || !EGpuError.is(error, EGpuErrorCode.Timeout)) throw error
  }
  return measured
}

async function measure(
  target: ComputeTarget,
  hands: ProbeHands,
  { clock, signal, budgetMs }: { readonly clock: Clock; readonly signal: AbortSignal; readonly budgetMs: number },
  learn: (more: MeasuredRates) => void,
): Promise<void> {
  const until = clock.now() + budgetMs
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    signal.throwIfAborted()
    const startedAt = clock.now()
    await work()
    // What comes back too late was not measured.
    signal.throwIfAborted()
    return clock.now() - startedAt
  }
  const tiny = Uint8Array.of(1, 2, 3, 4)
  await hands.write(tiny, { signal })
  // One of a busy machine may be longer than the copies it is taken from.
  let latencyMs = Infinity
  for (let round = 0; round < latencyRounds; round += 1) {
    latencyMs = Math.min(latencyMs, await timed(() => hands.write(tiny, { signal })))
  }

  /** Grows the job until it takes long enough to tell, within its share of what is left of the budget. */
  const rate = async (
    first: number,
    most: number,
    share: number,
    run: (size: number) => Promise<unknown>,
  ): Promise<number> => {
    const endsAt = clock.now() + (until - clock.now()) * share
    for (let size = first; ;) {
      let ms = await timed(() => run(size))
      // A pause of a busy machine is no property of the link.
      const repeats = ms >= enoughMs || size >= most ? 2 : 0
      for (let again = 0; again < repeats && clock.now() + ms < endsAt; again += 1) {
        ms = Math.min(ms, await timed(() => run(size)))
      }
      const left = endsAt - clock.now()
      const next = Math.min(most, size * Math.max(2, Math.min(64, enoughMs / Math.max(ms, 0.01))))
      // The next would take about so much longer.
      if (ms >= enoughMs || size >= most || ms * (next / size) > left)
        // A copy that is mostly latency says no more than that it is twice as fast.
        return size / Math.max(ms - latencyMs, ms / 2, 1e-6)
      size = next
    }
  }

  let sent: Uint8Array = tiny
  const toDevice = await rate(firstBytes, mostBytes, 0.25, (size) => {
    sent = nonce(Math.floor(size), clock.now())
    return hands.write(sent, { signal })
  })
  let got: Uint8Array = tiny
  const fromDevice = await rate(Math.min(firstBytes, sent.byteLength), sent.byteLength, 0.4, async (size) => {
    got = await hands.read(Math.floor(size), { signal })
  })
  refuse(target, sent, got, Math.max(toDevice, fromDevice) / 1e6)
  learn({ latencyMs, linkGBps: { toDevice: toDevice / 1e6, fromDevice: fromDevice / 1e6 } })
  const compute = hands.compute?.bind(hands)
  const stream = hands.stream?.bind(hands)
  if (compute !== undefined) {
    const flopsPerMs = await rate(firstFlops, 1e15, 0.6, (flops) => compute(flops, { signal }))
    learn({ flops: flopsPerMs * 1e3 })
  }
  if (stream !== undefined) {
    const bytesPerMs = await rate(firstBytes, 2 ** 40, 0.9, (bytes) => stream(bytes, { signal }))
    learn({ memoryGBps: bytesPerMs / 1e6 })
  }
  if (compute !== undefined) learn({ dispatchMs: await timed(() => compute(1, { signal })) })
}

function refuse(target: ComputeTarget, sent: Uint8Array, got: Uint8Array, gBps: number): void {
  const fastest = target.removable ? fastestGBps.removable : fastestGBps.internal
  const what = !isSame(sent, got)
    ? 'other bytes came back than were sent'
    : gBps > fastest
      ? `${gBps.toFixed(1)} GB/s is more than its link can carry, so the bytes did not go over it`
      : undefined
  if (what === undefined) return
  throw new EGpuError(EGpuErrorCode.MalformedData, `${target.name} could not be measured: ${what}`, {
    deviceId: target.deviceId,
  })
}

/** Every 61st byte: a copy that went wrong goes wrong by the page. */
function isSame(sent: Uint8Array, got: Uint8Array): boolean {
  for (let at = 0; at < got.byteLength; at += 61) if (got[at] !== sent[at]) return false
  return got.byteLength > 0
}

/** Bytes that nobody has lying around: xorshift32, Marsaglia 2003. */
function nonce(byteLength: number, seed: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(byteLength / 4))
  let word = (Math.floor(seed * 1_000) | 1) >>> 0
  for (let i = 0; i < words.length; i += 1) {
    word ^= word << 13
    word ^= word >>> 17
    word ^= word << 5
    words[i] = word
  }
  return new Uint8Array(words.buffer, 0, byteLength)
}

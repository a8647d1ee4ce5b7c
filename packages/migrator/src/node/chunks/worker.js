// The thread that hashes, compresses and reads chunks for ./chunk-pool.ts, beside the one that works. Plain JavaScript because
// a worker thread of Node 20 loads nothing else, and tests run the same file as users.
import { createHash } from 'node:crypto'
import { readSync } from 'node:fs'
import * as zlib from 'node:zlib'
import { parentPort } from 'node:worker_threads'

/** @typedef {import('./jobs.ts').Job} Job */
/** @typedef {import('./jobs.ts').JobResult} JobResult */
/** @typedef {{ compress(bytes: Uint8Array, level: number): Uint8Array, expand(bytes: Uint8Array, byteLength: number): Uint8Array }} Zstd */

const noZstd = new Error('this Node has no zstd (22.15 has) and @hpcc-js/wasm-zstd is not installed')

/** @type {Promise<Zstd> | undefined} */
let zstd

/**
 * Node has zstd from 22.15 and 23.8 on; for earlier ones there is a WebAssembly build.
 * @returns {Promise<Zstd>}
 */
async function loadZstd() {
  // Not in the types of Node 20.
  const { zstdCompressSync, zstdDecompressSync, constants } = /** @type {any} */ (zlib)
  if (typeof zstdCompressSync === 'function') {
    return {
      compress: (bytes, level) => zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level } }),
      expand: (bytes, byteLength) => zstdDecompressSync(bytes, { maxOutputLength: byteLength }),
    }
  }
  const { Zstd } = await import('@hpcc-js/wasm-zstd').catch(() => {
    throw noZstd
  })
  const wasm = await Zstd.load()
  return {
    compress: (bytes, at) => wasm.compress(bytes, at),
    expand: (bytes) => wasm.decompress(bytes),
  }
}

/**
 * @param {Job} job
 * @returns {Promise<JobResult>}
 */
async function carryOut(job) {
  switch (job.kind) {
    case 'digest':
      return { crc32: zlib.crc32(job.bytes), sha256: createHash('sha256').update(job.bytes).digest('hex') }
    case 'compress': {
      const codec = await (zstd ??= loadZstd())
      // A copy in memory of its own, so that it can be handed over.
      const stored = new Uint8Array(codec.compress(job.bytes, job.level))
      return { stored, crc32: zlib.crc32(stored) }
    }
    case 'expand': {
      const codec = await (zstd ??= loadZstd())
      return { bytes: new Uint8Array(codec.expand(job.stored, job.byteLength)) }
    }
    case 'read': {
      const { fd, offset, bytes, lengths } = job
      const crcs = []
      let count = 0
      for (const length of lengths) {
        const end = count + length
        for (let got = -1; count < end && got !== 0; count += got) {
          got = readSync(fd, bytes, count, end - count, offset + count)
        }
        if (count < end) break
        // While it is in this processor's cache.
        crcs.push(zlib.crc32(bytes.subarray(end - length, end)))
      }
      return { bytes, count, crcs }
    }
  }
}

parentPort?.on('message', (/** @type {{ id: number, job: Job }} */ { id, job }) => {
  carryOut(job).then(
    (result) => {
      const moved = 'stored' in result ? [result.stored.buffer] : 'bytes' in result ? [result.bytes.buffer] : []
      parentPort?.postMessage({ id, result }, moved)
    },
    (error) => parentPort?.postMessage({ id, error: String(error?.message ?? error), noZstd: error === noZstd }, []),
  )
})

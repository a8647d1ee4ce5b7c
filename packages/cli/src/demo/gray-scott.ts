/**
 * A Gray–Scott reaction–diffusion field (Pearson 1993) in fixed-point arithmetic. Only 32-bit integer operations are
 * used, so a CPU and every GPU give the same bits, which floating point would not: a WGSL compiler may fuse or reorder
 * it. Both concentrations of a cell are one u32: `u` in the low and `v` in the high 16 bits, 32767 meaning 1.0.
 */

import { seededRandom } from '@egpu/driver-sim'

/** One: 15 bits leave room for the product of two concentrations in an i32. */
export const one = 32_767

/** Rates of the equation: diffusion in 1/4096, feed and kill in 1/65536. They make a growing coral. */
export const rates = { diffuseU: 655, diffuseV: 328, feed: 3_572, feedAndKill: 7_635 } as const

/** The field at step 0: calm, with seeded squares of the second substance. */
export function initialField(size: number, seed: number): Uint32Array {
  const field = new Uint32Array(size * size).fill(one)
  const random = seededRandom(seed)
  const squares = Math.max(4, Math.floor((size * size) / 3_000))
  const side = Math.max(4, Math.floor(size / 40))
  for (let square = 0; square < squares; square += 1) {
    const left = random.integer(size)
    const top = random.integer(size)
    for (let y = 0; y < side; y += 1)
      for (let x = 0; x < side; x += 1) {
        const noise = random.integer(1_024)
        const cell = ((top + y) % size) * size + ((left + x) % size)
        field[cell] = (16_383 - noise) | ((8_191 + noise) << 16)
      }
  }
  return field
}

/** One step of the whole field, which wraps round at its edges: reads `from`, writes `to`. */
export function stepField(from: Uint32Array, to: Uint32Array, size: number): void {
  const { diffuseU, diffuseV, feed, feedAndKill } = rates
  for (let y = 0; y < size; y += 1) {
    const row = y * size
    const above = (y === 0 ? size - 1 : y - 1) * size
    const below = (y === size - 1 ? 0 : y + 1) * size
    for (let x = 0; x < size; x += 1) {
      const here = from[row + x] as number
      const north = from[above + x] as number
      const south = from[below + x] as number
      const west = from[row + (x === 0 ? size - 1 : x - 1)] as number
      const east = from[row + (x === size - 1 ? 0 : x + 1)] as number
      const u = here & 0xffff
      const v = here >>> 16
      const spreadU = (north & 0xffff) + (south & 0xffff) + (west & 0xffff) + (east & 0xffff) - 4 * u
      const spreadV = (north >>> 16) + (south >>> 16) + (west >>> 16) + (east >>> 16) - 4 * v
      const reaction = (((u * v) >> 15) * v) >> 15
      const nextU = u + ((diffuseU * spreadU + 2_048) >> 12) - reaction + ((feed * (one - u) + 32_768) >> 16)
      const nextV = v + ((diffuseV * spreadV + 2_048) >> 12) + reaction - ((feedAndKill * v + 32_768) >> 16)
      const keptU = nextU < 0 ? 0 : nextU > one ? one : nextU
      const keptV = nextV < 0 ? 0 : nextV > one ? one : nextV
      to[row + x] = (keptU | (keptV << 16)) >>> 0
    }
  }
}

/** The same step as a WGSL compute shader over two storage buffers. */
export function stepShader(size: number): string {
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read> cells: array<u32>;
@group(0) @binding(1) var<storage, read_write> next_cells: array<u32>;
const size = ${size}u;
const one = ${one};

@compute @workgroup_size(16, 16)
fn step(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= size || id.y >= size) { return; }
  let row = id.y * size;
  let above = select(id.y - 1u, size - 1u, id.y == 0u) * size;
  let below = select(id.y + 1u, 0u, id.y == size - 1u) * size;
  let here = cells[row + id.x];
  let north = cells[above + id.x];
  let south = cells[below + id.x];
  let west = cells[row + select(id.x - 1u, size - 1u, id.x == 0u)];
  let east = cells[row + select(id.x + 1u, 0u, id.x == size - 1u)];
  let u = i32(here & 0xffffu);
  let v = i32(here >> 16u);
  let spread_u = i32((north & 0xffffu) + (south & 0xffffu) + (west & 0xffffu) + (east & 0xffffu)) - 4 * u;
  let spread_v = i32((north >> 16u) + (south >> 16u) + (west >> 16u) + (east >> 16u)) - 4 * v;
  let reaction = (((u * v) >> 15u) * v) >> 15u;
  let next_u = u + ((${rates.diffuseU} * spread_u + 2048) >> 12u) - reaction + ((${rates.feed} * (one - u) + 32768) >> 16u);
  let next_v = v + ((${rates.diffuseV} * spread_v + 2048) >> 12u) + reaction - ((${rates.feedAndKill} * v + 32768) >> 16u);
  next_cells[row + id.x] = u32(clamp(next_u, 0, one)) | (u32(clamp(next_v, 0, one)) << 16u);
}
`
}

import { wordsPerSample } from './nodes/texture-format.ts'
import type { Texel } from './nodes/texture-format.ts'

/** How a shader sees a texel of each kind, and what the words stand for that it keeps it in. */
interface Kind {
  readonly single: string
  readonly multisampled: string
  /** Statements from `texel` to `words[at…]`. */
  readonly store: string
  /** Expression of what a fragment gives, from `words[at…]`. */
  readonly load: string
  /** Output of the fragment stage; none for stencil, which is written by what is not discarded. */
  readonly output: string
}

const fourWords = (convert: string): string =>
  [0, 1, 2, 3].map((n) => `words[at + ${n}u] = ${convert}(texel[${n}]);`).join(' ')
const fourValues = (convert: string): string => [0, 1, 2, 3].map((n) => `${convert}(words[at + ${n}u])`).join(', ')

const color = (type: string, store: string, load: string): Kind => ({
  single: `texture_2d<${type}>`,
  multisampled: `texture_multisampled_2d<${type}>`,
  store,
  load,
  output: `@location(0) vec4<${type}>`,
})

const kinds: Readonly<Record<Texel, Kind>> = {
  unorm8: color('f32', 'words[at] = pack4x8unorm(texel);', 'unpack4x8unorm(words[at])'),
  float: color('f32', fourWords('bitcast<u32>'), `vec4f(${fourValues('bitcast<f32>')})`),
  uint: color('u32', fourWords('u32'), `vec4u(${fourValues('u32')})`),
  sint: color('i32', fourWords('bitcast<u32>'), `vec4i(${fourValues('bitcast<i32>')})`),
  depth: {
    single: 'texture_depth_2d',
    multisampled: 'texture_depth_multisampled_2d',
    store: 'words[at] = bitcast<u32>(texel);',
    load: 'bitcast<f32>(words[at])',
    output: '@builtin(frag_depth) f32',
  },
  stencil: {
    single: 'texture_2d<u32>',
    multisampled: 'texture_multisampled_2d<u32>',
    store: 'words[at] = texel.r;',
    load: '',
    output: '',
  },
}

/** Writes the rows `band.x` and after of an image, `band.y` of them, into a buffer: one invocation for each texel. */
export function savingShader(texel: Texel, sampleCount: number): string {
  const { single, multisampled, store } = kinds[texel]
  return /* wgsl */ `
@group(0) @binding(0) var image: ${sampleCount > 1 ? multisampled : single};
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<uniform> band: vec4u;
@compute @workgroup_size(8, 8) fn save(@builtin(global_invocation_id) id: vec3u) {
  let width = textureDimensions(image).x;
  if (id.x >= width || id.y >= band.y) { return; }
  for (var s = 0u; s < ${sampleCount}u; s += 1u) {
    let texel = textureLoad(image, vec2u(id.x, band.x + id.y), ${sampleCount > 1 ? 's' : '0'});
    let at = ((id.y * width + id.x) * ${sampleCount}u + s) * ${wordsPerSample[texel]}u;
    ${store}
  }
}`
}

/** Draws such rows back; of a stencil, the bit `band.w` of it where it is set. `band.z` is the width. */
export function restoringShader(texel: Texel, sampleCount: number): string {
  const { load, output } = kinds[texel]
  const input = sampleCount > 1 ? ', @builtin(sample_index) s: u32' : ''
  const result = output === '' ? 'if ((words[at] & band.w) == 0u) { discard; }' : `return ${load};`
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<uniform> band: vec4u;
@vertex fn cover(@builtin(vertex_index) corner: u32) -> @builtin(position) vec4f {
  return vec4f(f32(corner & 1u) * 4 - 1, f32(corner >> 1u) * 4 - 1, 0, 1);
}
@fragment fn restore(@builtin(position) position: vec4f${input}) ${output === '' ? '' : `-> ${output} `}{
  let texel = vec2u(position.xy);
  let at = (((texel.y - band.x) * band.z + texel.x) * ${sampleCount}u + ${sampleCount > 1 ? 's' : '0u'}) * ${wordsPerSample[texel]}u;
  ${result}
}`
}

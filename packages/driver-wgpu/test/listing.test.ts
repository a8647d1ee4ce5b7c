import { expect, test } from 'vitest'
import { parseListing, withoutDetours } from '../src/adapters/listing.ts'

const answer = `no suitable backends found
Available adapters:
 * backend: 'vulkan', name: 'AMD Radeon RX 7600 (RADV NAVI33)'
 * backend: 'vulkan', name: 'Alice's GPU'
 * backend: 'opengl', name: 'AMD Radeon RX 7600 (radeonsi, navi33, LLVM 15.0.6)'
`

test("reads Dawn's list of adapters", () => {
  expect(parseListing(answer)).toEqual([
    { backend: 'vulkan', name: 'AMD Radeon RX 7600 (RADV NAVI33)' },
    { backend: 'vulkan', name: "Alice's GPU" },
    { backend: 'opengl', name: 'AMD Radeon RX 7600 (radeonsi, navi33, LLVM 15.0.6)' },
  ])
  expect(parseListing('something else went wrong')).toEqual([])
})

test('drops second views of a GPU, but keeps them when there is no first', () => {
  expect(withoutDetours(parseListing(answer)).map(({ backend }) => backend)).toEqual(['vulkan', 'vulkan'])
  const onlyGl = [{ backend: 'opengl', name: 'x' }]
  expect(withoutDetours(onlyGl)).toEqual(onlyGl)
})

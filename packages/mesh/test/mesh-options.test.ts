import { expect, it } from 'vitest'
import { temporaryIdentity } from '../src/identity/identity.ts'
import { ThunderboltMesh } from '../src/thunderbolt-mesh.ts'

it.each(['a', '', '0123456789ABCDEF', '0123456789abcdef0'])(
  'refuses %j as a host tag, as every peer would',
  async (hostTag) => {
    const mesh = ThunderboltMesh.discover({ identity: temporaryIdentity(), settleMs: 0, port: 0, hostTag })
    await expect(mesh).rejects.toThrow(TypeError)
  },
)

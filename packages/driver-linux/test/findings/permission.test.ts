import { describe, expect, it } from 'vitest'
import { observe } from '../../src/observe.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { treeOf } from '../machines/build.ts'
import { machineNamed } from '../machines/index.ts'
import { memorySysfs } from '../machines/tree.ts'

describe('missing-permission', () => {
  it('says that root would know which box it is, when the kernel has the number and hides it', async () => {
    const sysfs = memorySysfs(treeOf(machineNamed('hub-with-egpu-and-ssd-as-root')))
    const forUser: typeof sysfs = {
      ...sysfs,
      read: (directory, attribute) =>
        attribute === 'serial_number' ? { error: 'EACCES' } : sysfs.read(directory, attribute),
    }
    const { findings } = observe(await readTopology(forUser))
    expect(findings.map(({ code }) => code)).toEqual(['enclosure-ambiguous', 'missing-permission'])
    expect(findings.filter(({ advice }) => advice.includes('root'))).toHaveLength(1)
  })
})

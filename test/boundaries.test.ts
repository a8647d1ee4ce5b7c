import { builtinModules } from 'node:module'
import { join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { entries, imports, reachable, root, rooms, sources, type Room } from './workspace.ts'

const packages = rooms('packages')
const core = packages.find(({ manifest }) => manifest.name === '@egpu/core') as Room
const libraries = packages.filter(({ manifest }) => manifest.name !== '@egpu/core' && manifest.name !== '@egpu/cli')
const isDriver = (name: string): boolean => name.startsWith('@egpu/driver-')
const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
const isBuiltin = (specifier: string): boolean => specifier.startsWith('node:') || builtinModules.includes(specifier)

/** Which @egpu packages the sources of a room may import. */
function mayKnow(name: string): (other: string) => boolean {
  if (name === '@egpu/core') return () => false
  if (name === '@egpu/cli') return () => true
  if (name === '@egpu/mesh') return (other) => other === '@egpu/core' || other === '@egpu/migrator'
  return (other) => other === '@egpu/core'
}

const outside = (room: Room): { file: string; specifier: string }[] =>
  sources(join(room.path, 'src')).flatMap((file) =>
    imports(file)
      .filter((specifier) => !specifier.startsWith('.'))
      .map((specifier) => ({ file: relative(root, file), specifier })),
  )

describe('who may know whom', () => {
  it.each(packages)('$manifest.name imports only the @egpu packages the house allows', (room) => {
    const allowed = mayKnow(room.manifest.name)
    const strangers = outside(room).filter(
      ({ specifier }) =>
        specifier.startsWith('@egpu/') && packageOf(specifier) !== room.manifest.name && !allowed(packageOf(specifier)),
    )
    expect(strangers).toEqual([])
  })

  it.each(packages)('$manifest.name declares everything its sources import', (room) => {
    const { name, dependencies, optionalDependencies, peerDependencies } = room.manifest
    const declared = new Set([name, ...Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })])
    const undeclared = outside(room).filter(
      // The dashboard's page is bundled: what it is made of is not installed with the package.
      ({ file, specifier }) =>
        !isBuiltin(specifier) && !declared.has(packageOf(specifier)) && !file.includes('/dashboard/page/'),
    )
    expect(undeclared).toEqual([])
  })

  it('core has one runtime dependency', () => {
    expect(Object.keys(core.manifest.dependencies ?? {})).toEqual(['eventemitter3'])
  })

  it.each(libraries)('$manifest.name takes core as a peer, so that an application has one copy', ({ manifest }) => {
    expect(manifest.peerDependencies).toHaveProperty(['@egpu/core'], 'workspace:>=0.1.0 <1.0.0')
    expect(manifest.dependencies ?? {}).not.toHaveProperty(['@egpu/core'])
  })

  it.each(packages.filter(({ manifest }) => isDriver(manifest.name)))(
    '$manifest.name can be found as a driver',
    (room) => {
      expect(room.manifest.keywords).toContain('egpu-driver')
    },
  )

  it.each(packages.filter(({ manifest }) => ['@egpu/core', '@egpu/migrator', '@egpu/mesh'].includes(manifest.name)))(
    '$manifest.name names no driver',
    (room) => {
      expect(outside(room).filter(({ specifier }) => isDriver(specifier))).toEqual([])
    },
  )

  it.each(['@egpu/core', '@egpu/driver-wgpu', '@egpu/driver-sim', '@egpu/migrator'])(
    'the root of %s runs in a browser: no Node built-in is reachable from it',
    (name) => {
      const room = packages.find(({ manifest }) => manifest.name === name)
      const entry = entries(room as Room).find(([subpath]) => subpath === '.')?.[1] as string
      const builtins = [...reachable(entry)].flatMap((file) =>
        imports(file)
          .filter(isBuiltin)
          .map((specifier) => `${relative(root, file)} imports ${specifier}`),
      )
      expect(builtins).toEqual([])
    },
  )

  it.each(packages)('$manifest.name loads native code from one file, and only when asked', (room) => {
    const native = new Set(['koffi', 'usb', 'webgpu'])
    const users = outside(room).filter(({ specifier }) => native.has(specifier))
    for (const module of native) {
      const files = new Set(users.filter(({ specifier }) => specifier === module).map(({ file }) => file))
      expect(files.size, `${module} is imported by ${[...files].join(', ')}`).toBeLessThanOrEqual(1)
    }
  })
})

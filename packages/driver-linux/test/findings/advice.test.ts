import { describe, expect, it } from 'vitest'
import { observe } from '../../src/observe.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { overrideFor, parseOverrides } from '../../src/verdict/override.ts'
import { treeOf } from '../machines/build.ts'
import { machineNamed, machines } from '../machines/index.ts'
import { memorySysfs } from '../machines/tree.ts'

const surveyed = await Promise.all(
  machines.map(async (machine) => {
    const sysfs = memorySysfs(treeOf(machine))
    const topology = await readTopology(sysfs)
    return { sysfs, topology, findings: observe(topology, { overrides: machine.overrides }).findings }
  }),
)
const advice = surveyed.flatMap(({ sysfs, topology, findings }) =>
  findings.map((finding) => ({ sysfs, topology, code: finding.code, text: finding.advice, finding })),
)

describe('advice', () => {
  it('ends with its command, so that it can be copied', () => {
    const commands = advice.filter(({ text }) => /: (?:echo|boltctl|modprobe) |\/sys\//.test(text))
    expect(new Set(commands.map(({ code }) => code))).toEqual(
      new Set([
        'enclosure-unauthorized',
        'tunnel-port-suspended',
        'no-driver',
        'thunderbolt-driver-missing',
        'xg-mobile-disabled',
      ]),
    )
    expect(commands.filter(({ text }) => /\/sys\/\S*[.,;:]$/.test(text) || /\/sys\/\S*[.,;:] /.test(text))).toEqual([])
  })

  it('names only directories that are there', () => {
    const paths = advice.flatMap(({ sysfs, text }) =>
      [...text.matchAll(/\/sys\/(bus\/(?:pci|thunderbolt)\/devices\/[^/]+)/g)].map((match) => ({
        sysfs,
        path: match[1] as string,
      })),
    )
    expect(paths.length).toBeGreaterThan(0)
    expect(paths.filter(({ sysfs, path }) => sysfs.link(path) === undefined)).toEqual([])
  })

  it('has override entries that the driver takes, for this GPU and none with other ids', () => {
    const entries = advice.filter(({ code }) => code === 'verdict-uncertain')
    expect(entries.length).toBeGreaterThan(0)
    for (const { text, topology } of entries) {
      const overrides = parseOverrides(text.slice(text.indexOf('{')))
      const meant = [...topology.pci.values()].filter((device) => overrideFor(overrides, device) !== undefined)
      const ids = meant.map((device) => `${device.deviceId} ${device.subsystemVendorId} ${device.subsystemDeviceId}`)
      expect(new Set(ids).size).toBe(1)
    }
  })

  it('says nothing twice about the same device or box', () => {
    for (const { findings } of surveyed) {
      const said = findings.map(({ code, deviceId, enclosureId, seen }) =>
        [code, deviceId, enclosureId, seen].join(' '),
      )
      expect(new Set(said).size).toBe(said.length)
    }
  })
})

describe('a security level that is none', () => {
  it('is not looked up among words that every object has', async () => {
    for (const word of ['constructor', '__proto__', 'toString']) {
      const tree = new Map(treeOf(machineNamed('aorus-unauthorized-after-host-reset')))
      for (const path of tree.keys()) if (path.endsWith('/security')) tree.set(path, `${word}\n`)
      const { findings } = observe(await readTopology(memorySysfs(tree)))
      expect(findings.map(({ code }) => code)).toContain('enclosure-unauthorized')
      expect(findings.filter(({ code }) => code.startsWith('security-'))).toEqual([])
    }
  })
})

describe('a box whose speed cannot be read', () => {
  it.each([
    ['5.4.0', true],
    ['5.5.0', false],
    ['6.19.0', false],
  ])('on Linux %s is blamed on the kernel: %s', async (release, isBlamed) => {
    const tree = new Map(treeOf(machineNamed('aorus-healthy-unbound')))
    for (const path of tree.keys()) if (/\/[rt]x_speed$/.test(path)) tree.delete(path)
    const proc = memorySysfs(new Map([['sys/kernel/osrelease', `${release}\n`]]))
    const { findings } = observe(await readTopology(memorySysfs(tree), { proc }))
    expect(findings.some(({ seen }) => seen.includes('does not tell the link speed'))).toBe(isBlamed)
  })
})

describe('a box that went while it was read', () => {
  it('is not listed', async () => {
    const tree = new Map(treeOf(machineNamed('aorus-healthy-unbound')))
    for (const path of tree.keys()) if (path.includes('/0-0/0-1/')) tree.delete(path)
    const { enclosures, findings } = observe(await readTopology(memorySysfs(tree)))
    expect(enclosures).toEqual([])
    expect(findings.map(({ code }) => code)).not.toContain('no-dma-protection')
  })
})

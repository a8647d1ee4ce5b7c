import type { Finding } from '@egpu/core'
import { about, gpuName, liveExternal } from './rule.ts'
import type { FindingRule } from './rule.ts'

/** `bar-allocation-failed`: the kernel found no room for a memory window, so no driver can work. */
export const unassignedBar: FindingRule = (survey) =>
  liveExternal(survey).flatMap((surveyed): readonly Finding[] => {
    const missing = surveyed.gpu.details?.bars.filter(({ assigned }) => !assigned) ?? []
    if (missing.length === 0) return []
    const list = missing.map(({ index, sizeBytes }) => `${index} (${sizeText(sizeBytes)})`).join(', ')
    return [
      {
        code: 'bar-allocation-failed',
        severity: 'error',
        ...about(surveyed),
        seen: `The kernel found no address space for BAR ${list} of the ${gpuName(surveyed)}.`,
        advice:
          'Boot with pci=realloc,hpbussize=0x33,hpmmiosize=256M,hpmmioprefsize=64G and turn on "above 4G decoding" in the firmware setup, or plug the box in before booting.',
        evidence: [{ source: `${surveyed.gpu.path}/resource`, value: `BAR ${list} unassigned` }],
      },
    ]
  })

/** `bar-too-small`: the window got less room than the GPU can use, as after a re-plug. */
export const smallBar: FindingRule = (survey) =>
  liveExternal(survey).flatMap((surveyed): readonly Finding[] => {
    const { gpu } = surveyed
    return (gpu.details?.bars ?? []).flatMap(({ index, sizeBytes, assigned }) => {
      const largest = gpu.details?.largestBarBytes.get(index)
      if (!assigned || largest === undefined || sizeBytes >= largest) return []
      return [
        {
          code: 'bar-too-small',
          severity: 'warning',
          ...about(surveyed),
          seen: `BAR ${index} of the ${gpuName(surveyed)} is ${sizeText(sizeBytes)} large; it could be ${sizeText(largest)}.`,
          advice:
            'Copies may be slower and some drivers refuse to start. Boot with the box plugged in, or with pci=realloc,hpmmioprefsize=64G.',
          evidence: [{ source: `${gpu.path}/resource${index}_resize`, value: sizeText(largest) }],
        } satisfies Finding,
      ]
    })
  })

function sizeText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${Math.round(value * 10) / 10} ${units[unit]}`
}

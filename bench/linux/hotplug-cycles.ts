import { runCycles } from '../../packages/driver-linux/test/system/qemu/cycles.ts'
import { GuestWatch } from '../../packages/driver-linux/test/system/qemu/guest-watch.ts'
import { bootMachine } from '../../packages/driver-linux/test/system/qemu/machine.ts'
import type { Figure } from '../figure.ts'

const cycles = 100

/** A real kernel in QEMU, a card plugged in and pulled a hundred times. Needs the built packages and Debian's QEMU. */
export async function measure(): Promise<Figure[]> {
  await using machine = await bootMachine({ iommu: false })
  const watch = await GuestWatch.start(machine.vm, 'bench')
  const report = await runCycles(machine, watch, cycles)
  const none = (figure: string, value: number): Figure => ({
    figure,
    value,
    unit: `of ${cycles} cycles`,
    bar: '= 0',
    pass: value === 0,
  })
  return [
    none('missed plugs and pulls', report.missed),
    none('repeated departures', report.repeated),
    none('events out of order', report.reordered),
    {
      figure: 'heap after all cycles over heap after a quarter',
      value: report.heapGrowth,
      unit: 'x',
      bar: '<= 1.1 x',
      pass: report.heapGrowth <= 1.1,
    },
  ]
}

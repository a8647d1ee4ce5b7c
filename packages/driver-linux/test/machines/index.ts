import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { procOf, treeOf } from './build.ts'
import * as amd from './cases/amd.ts'
import * as aorus from './cases/aorus.ts'
import * as chains from './cases/chains.ts'
import * as diagnoses from './cases/diagnoses.ts'
import * as discrete from './cases/discrete.ts'
import * as intel from './cases/intel.ts'
import * as negative from './cases/negative.ts'
import * as notThunderbolt from './cases/not-thunderbolt.ts'
import type { Machine } from './machine.ts'
import { writeTree } from './tree.ts'

/** Machines without an external GPU that look like one. */
export const negatives: readonly Machine[] = machinesIn(negative)

/** Every recorded machine, in the order of the cases. */
export const machines: readonly Machine[] = [negative, aorus, discrete, amd, intel, chains, notThunderbolt, diagnoses]
  .flatMap(machinesIn)
  .sort((one, other) => (one.case ?? 1000) - (other.case ?? 1000))

function machinesIn(file: Readonly<Record<string, unknown>>): Machine[] {
  return Object.values(file).filter((value): value is Machine => typeof value === 'object')
}

export function machineNamed(name: string): Machine {
  const found = machines.find((machine) => machine.name === name || String(machine.case) === name)
  if (found === undefined)
    throw new TypeError(`no machine ${name}; there are: ${machines.map((one) => one.name).join(', ')}`)
  return found
}

/** A machine on disk. Hand `sysfsRoot` and `procRoot` to `linuxDriver`, or `sysfsRoot` to `egpu list --sysfs-root`. */
export interface BuiltMachine extends Disposable {
  readonly sysfsRoot: string
  readonly procRoot: string
}

/** Builds a machine in `directory`, by default a temporary one that disposing removes. */
export function buildMachine(machine: Machine, directory?: string): BuiltMachine {
  const root = directory ?? mkdtempSync(join(tmpdir(), `egpu-${machine.name}-`))
  const sysfsRoot = join(root, 'sys')
  const procRoot = join(root, 'proc')
  writeTree(treeOf(machine), sysfsRoot)
  writeTree(procOf(machine), procRoot)
  return {
    sysfsRoot,
    procRoot,
    [Symbol.dispose]: () => {
      if (directory === undefined) rmSync(root, { recursive: true, force: true })
    },
  }
}

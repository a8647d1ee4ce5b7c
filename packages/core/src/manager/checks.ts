import type { DriverCapabilities, EGpuDriver } from '../driver/driver.ts'
import { acceptedSpecVersions } from '../driver/spec-version.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'

/** A wait has to be a number of milliseconds that makes sense, from `least` up. */
export function checkedMs(name: string, value: number, least: number): number {
  if (typeof value === 'number' && value >= least && value < Number.POSITIVE_INFINITY) return value
  throw new TypeError(`${name} must be a number of milliseconds of at least ${least}, not ${String(value)}`)
}

/** Refuses a driver that this core cannot work with, before anything of it is called. */
export function checkDriver(driver: EGpuDriver): void {
  if (typeof driver !== 'object' || driver === null || typeof driver.name !== 'string' || driver.name === '') {
    throw new TypeError('a driver must be an object with a name; did you pass the function instead of calling it?')
  }
  checkSpecVersion(driver)
  checkCapabilities(driver)
}

function checkSpecVersion({ name, specVersion }: EGpuDriver): void {
  const version: unknown = specVersion
  if (typeof version === 'number' && acceptedSpecVersions.includes(version)) return
  const newest = acceptedSpecVersions.at(-1) as number
  const accepted = acceptedSpecVersions.join(', ')
  const remedy =
    typeof version === 'number' && version > newest
      ? `upgrade @egpu/core to a version that accepts ${version}`
      : `upgrade the driver to a version that speaks ${newest}`
  throw new EGpuError(
    EGpuErrorCode.DriverSpecVersion,
    `driver ${name} speaks version ${String(version)} of the driver contract, this @egpu/core accepts ${accepted}: ${remedy}`,
    { driver: name },
  )
}

const methods = ['probe', 'list', 'watch', 'close'] as const

function checkCapabilities(driver: EGpuDriver): void {
  const { name, capabilities } = driver
  const broken = (what: string): never => {
    throw new EGpuError(EGpuErrorCode.DriverMisbehaved, `driver ${name} ${what}; report this to its author`, {
      driver: name,
    })
  }
  if (name.includes('/')) broken('has a slash in its name, which separates a driver from its targets')
  for (const method of methods) if (typeof driver[method] !== 'function') broken(`has no ${method}()`)
  if (typeof capabilities !== 'object' || capabilities === null) broken('declares no capabilities')
  if (!Array.isArray(capabilities.runtimes)) broken('declares no capabilities.runtimes, not even an empty list')
  for (const [facet, declared] of declaredFacets(capabilities)) {
    if (declared && driver[facet] === undefined) broken(`declares ${facet} but does not have it`)
    if (!declared && driver[facet] !== undefined) broken(`has ${facet} but does not declare it`)
  }
}

function declaredFacets(
  capabilities: DriverCapabilities,
): ['health' | 'safeRemoval' | 'passthrough' | 'runtime', boolean][] {
  return [
    ['health', capabilities.health],
    ['safeRemoval', capabilities.safeRemoval],
    ['passthrough', capabilities.passthrough],
    ['runtime', capabilities.runtimes.length > 0],
  ]
}

/** A driver object keeps state about the machine, so exactly one manager at a time may use it. */
const claimed = new WeakSet<EGpuDriver>()

/** Claims all or none. */
export function claimDrivers(drivers: readonly EGpuDriver[]): void {
  const names = new Set<string>()
  for (const driver of drivers) {
    if (claimed.has(driver) || drivers.indexOf(driver) !== drivers.lastIndexOf(driver)) {
      throw new EGpuError(
        EGpuErrorCode.DriverInUse,
        `driver ${driver.name} is used by a manager already, or twice by this one; make a driver object for each manager`,
        { driver: driver.name },
      )
    }
    if (names.has(driver.name)) {
      throw new TypeError(`two drivers are named ${driver.name}; give one of them another name`)
    }
    names.add(driver.name)
  }
  for (const driver of drivers) claimed.add(driver)
}

export function releaseDrivers(drivers: readonly EGpuDriver[]): void {
  for (const driver of drivers) claimed.delete(driver)
}

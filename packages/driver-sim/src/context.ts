import type { Clock, LinkReport, RuntimeKind, Verdict } from '@egpu/core'
import type { DeviceObservation, DriverEvent } from '@egpu/core/driver'
import type { SimTiming } from './descriptions.ts'
import type { Random } from './random.ts'

/** What every part of one machine shares. */
export interface MachineContext {
  readonly driverName: string
  readonly clock: Clock
  readonly random: Random
  readonly timing: SimTiming
  readonly ambientCelsius: number
  /** Whether anybody would hear an event; looking at ten thousand cards for nobody takes a second. */
  readonly watched: boolean
  emit(event: DriverEvent): void
  /** A PCI address that no device has now and none had just before. */
  nextPciAddress(): string
  nextPid(): number
  /** Throws `TypeError` when the driver did not declare this runtime. */
  checkRuntime(runtime: RuntimeKind): void
}

/** Where a card sits, as it sees it. */
export interface CardPlace {
  readonly external: boolean
  readonly enclosureId: string | undefined
  readonly slot: number | undefined
  /** Part of the observation that depends on the cable. */
  surroundings(): Partial<Pick<DeviceObservation, 'thunderboltPort' | 'thunderboltSpeed'>>
  link(pciAddress: string): LinkReport
  /** What the link carries now over what it carried at its best. */
  linkRatio(): number
  verdict(): Verdict
}

import type { ComputeTarget } from '@egpu/core'
import { answerNow } from '../answer-now.ts'
import type { MigrationConfig, TargetLink } from '../config.ts'
import type { MigratorHost } from '../host.ts'
import type { RateBook } from '../placement/rate-book.ts'
import { standingKey } from '../placement/stability.ts'
import { SavingLink } from './saving-link.ts'

/**
 * Of a cable that may be pulled saving takes this share where nobody says: the rest is left to the work, and long copies
 * at full speed are what brings weak tunnels down.
 */
const defaultShare = 0.5

/** The links that checkpoints go over: one for each device, whatever and however much works on it. */
export class SavingLinks {
  readonly #host: MigratorHost
  readonly #rates: RateBook
  readonly #setting: MigrationConfig['bytesPerSecond']
  readonly #links = new Map<string, SavingLink>()

  constructor(host: MigratorHost, rates: RateBook, setting: MigrationConfig['bytesPerSecond']) {
    this.#host = host
    this.#rates = rates
    this.#setting = setting
  }

  /** `undefined` for the CPU: nothing of its state is behind a link. */
  of(target: ComputeTarget): SavingLink | undefined {
    if (target.kind === 'cpu') return undefined
    const link = this.#at(standingKey(target))
    const fromDeviceGBps = this.#carries(target)
    link.pace.adjust({
      bytesPerSecond: this.#most({ target, fromDeviceGBps }),
      linkBytesPerSecond: fromDeviceGBps === undefined ? undefined : fromDeviceGBps * 1e9,
    })
    return link
  }

  linkErrors(deviceId: string, driver: string, total: number): void {
    this.#at(deviceId).pace.linkErrors(total, driver)
  }

  /** Its loss is not expected any more. */
  relax(deviceId: string): void {
    this.#links.get(deviceId)?.relax()
  }

  /** Plugged in again it may be on another cable. */
  gone(deviceId: string): void {
    this.#links.delete(deviceId)
  }

  #at(key: string): SavingLink {
    let link = this.#links.get(key)
    if (link === undefined) this.#links.set(key, (link = new SavingLink(this.#host.clock)))
    return link
  }

  #carries(target: ComputeTarget): number | undefined {
    const measured = this.#rates.of(target.id)?.linkGBps?.fromDevice
    const link = target.deviceId === undefined ? undefined : this.#host.find(target.deviceId)?.link
    const known = measured ?? link?.measuredGBps?.fromDevice ?? target.linkGBps?.fromDevice
    return known !== undefined && known > 0 ? known : undefined
  }

  /** `undefined` for no limit, also where a user's function fails: work that is not saved is worse than a busy link. */
  #most(link: TargetLink): number | undefined {
    const setting = this.#setting
    if (typeof setting === 'number') return setting
    if (setting === undefined) return link.target.removable === false ? undefined : shareOf(link)
    try {
      const most = answerNow(() => setting(link))
      return typeof most === 'number' && most > 0 ? most : undefined
    } catch {
      return undefined
    }
  }
}

function shareOf({ fromDeviceGBps }: TargetLink): number | undefined {
  return fromDeviceGBps === undefined ? undefined : defaultShare * fromDeviceGBps * 1e9
}

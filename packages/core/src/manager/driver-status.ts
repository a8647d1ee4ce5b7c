import type { DriverCapabilities } from '../driver/driver.ts'
import type { EGpuError } from '../error.ts'

/** How one driver of a manager fares. */
export interface DriverStatus {
  readonly name: string
  readonly capabilities: DriverCapabilities
  /**
   * `usable`: it answers. `unusable`: its probe says why it cannot work on this machine. `failed`: it threw, hung or
   * ended its watch; what it had reported before is kept, and `manager.refresh()` asks it again.
   */
  readonly state: 'usable' | 'unusable' | 'failed'
  /** Why it is not usable. */
  readonly reason?: string | undefined
  /** The last thing that went wrong, also when it went on afterwards. */
  readonly error?: EGpuError | undefined
}

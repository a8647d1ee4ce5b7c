/** What Apple silicon lets an external GPU do: never graphics, compute only where a DriverKit extension drives it. */
export interface AppleSiliconEGpuInfo {
  /** The GPU shows up as a PCI device behind the cable. */
  readonly enumerates: boolean
  /** Bundle id of the extension that drives it. */
  readonly drivenBy?: string | undefined
  /** `waiting` means a person has to allow the extension in System Settings. */
  readonly approval?: 'approved' | 'waiting' | undefined
  readonly computeOnly: true
  /** How much host memory the device can map at once (DART), in bytes. */
  readonly mappableBytes?: number | undefined
}

/** Something a person should know or do, as data. Codes are kebab-case and API; texts may change. */
export interface Finding {
  readonly code: string
  /** `error`: something connected does not work. `warning`: it works worse than it could. `info`: good to know. */
  readonly severity: 'error' | 'warning' | 'info'
  /** Id of the device in `manager.devices`; in what a driver reports, the driver's own key. */
  readonly deviceId?: string | undefined
  readonly enclosureId?: string | undefined
  /** What was seen, in a sentence. */
  readonly seen: string
  /** What to do about it. */
  readonly advice: string
  /** What was read to conclude it. */
  readonly evidence?: readonly { readonly source: string; readonly value: string | undefined }[] | undefined
}

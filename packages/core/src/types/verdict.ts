/** One reason for a verdict. */
export interface Evidence {
  /** What was looked at, kebab-case: `pci-removable`, `tunnel-root-port`, `thunderbolt-router`. */
  readonly signal: string
  /** What it said, as read. */
  readonly value: string | number | boolean | undefined
  /** How much it counts, 0 to 1. */
  readonly weight: number
  readonly points: 'external' | 'internal' | 'neither'
  /** Where it was read: a sysfs path, a registry key. */
  readonly source?: string | undefined
}

/** How an external GPU is attached. */
export const Transport = {
  Thunderbolt: 'thunderbolt',
  Usb4: 'usb4',
  OcuLink: 'oculink',
  XgMobile: 'xg-mobile',
  /** External for certain, but over what is not known. */
  Unknown: 'unknown',
} as const
export type Transport = (typeof Transport)[keyof typeof Transport]

/** Whether a GPU is external, how sure that is, and why. */
export interface Verdict {
  readonly conclusion: 'external' | 'internal' | 'unknown'
  /** 0 (a coin toss) to 1 (certain). Act on your own only from 0.8 up. */
  readonly confidence: number
  /** Present when `conclusion` is `external`. */
  readonly transport?: Transport | undefined
  readonly evidence: readonly Evidence[]
}

export const unknownVerdict: Verdict = { conclusion: 'unknown', confidence: 0, evidence: [] }

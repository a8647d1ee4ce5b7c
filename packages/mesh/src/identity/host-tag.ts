import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname, networkInterfaces } from 'node:os'

/**
 * Tells two running machines apart even when one is a copy of the other's disk: Linux makes up a boot id at every boot.
 * Elsewhere it is the machine's first network card. 16 hex digits of a hash, so that peers learn nothing from it.
 */
export function hostTag(): string {
  return short(`running ${readText('/proc/sys/kernel/random/boot_id') ?? hardware()}`)
}

/** Tells machines apart across boots, so that a copied folder is noticed where it lands. */
export function machineTag(): string {
  return short(`machine ${readText('/etc/machine-id') ?? hardware()}`)
}

/** Whether a text has the form of such a tag, which is also that of a running process's. */
export function isTag(text: string): boolean {
  return /^[\da-f]{16}$/.test(text)
}

function hardware(): string {
  const { en0, Ethernet } = networkInterfaces()
  return (en0 ?? Ethernet)?.[0]?.mac ?? hostname()
}

function short(text: string): string {
  return createHash('sha256').update(`egpu-mesh ${text}`).digest('hex').slice(0, 16)
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

import { createHmac, randomBytes } from 'node:crypto'
import { routerUidOf } from '../enclosure/router-uid.ts'
import { parseSerialNumber, parseUuid } from '../sysfs/parse.ts'
import type { TreeRecording } from './recording.ts'

/**
 * Replaces what could tell one machine or its owner from another: unique ids of routers and peers, serial numbers of
 * PCI devices, and the names of other hosts. The same value gets the same stand-in within one recording, so that a
 * serial number still fits the router it names; the key is thrown away, so that two recordings do not fit each other.
 */
export function redacted({ reads, lists, links }: TreeRecording): TreeRecording {
  const key = randomBytes(32)
  const standIn = (text: string, digits: number): string =>
    createHmac('sha256', key).update(text).digest('hex').slice(0, digits)
  const hosts = new Map<string, string>()
  const hostName = (name: string): string => {
    const known = hosts.get(name) ?? `host-${hosts.size + 1}`
    hosts.set(name, known)
    return known
  }
  const isPeer = (directory: string): boolean => typeof reads[`${directory}/maxhopid`] === 'string'

  const redact = (path: string, text: string): string => {
    const cut = path.lastIndexOf('/')
    const [directory, attribute] = [path.slice(0, cut), path.slice(cut + 1)]
    if (attribute === 'unique_id') return uniqueId(text, standIn)
    if (attribute === 'serial_number') {
      const serial = parseSerialNumber(text)
      return serial === undefined ? text : (standIn(serial, 16).match(/../g) ?? []).join('-')
    }
    if (attribute === 'device_name' && isPeer(directory)) return hostName(text)
    return text
  }
  return {
    lists,
    links,
    reads: Object.fromEntries(
      Object.entries(reads).map(([path, read]) => [path, typeof read === 'string' ? redact(path, read) : read]),
    ),
  }
}

/** Of the same make as it was: one that holds a router's UID still does. */
function uniqueId(text: string, standIn: (text: string, digits: number) => string): string {
  const uuid = parseUuid(text)
  if (uuid === undefined) return text
  const uid = routerUidOf(uuid)
  const digits =
    uid === undefined
      ? standIn(uuid, 32)
      : `${(standIn(uid, 16).match(/../g) ?? []).reverse().join('')}${'f'.repeat(16)}`
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

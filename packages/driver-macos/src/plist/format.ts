import type { RegistryValue } from '../registry/value.ts'
import { asArray } from '../registry/value.ts'

/** A property list in XML, as `ioreg -a` prints one; `parsePlist` reads the same values from it. */
export function formatPlist(value: RegistryValue): string {
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    format(value, ''),
    '</plist>\n',
  ].join('\n')
}

/** Indented, so that a person can look it through before it is mailed. */
function format(value: RegistryValue, indent: string): string {
  if (typeof value === 'boolean') return `${indent}<${value}/>`
  if (typeof value === 'bigint') return `${indent}<integer>${value}</integer>`
  if (typeof value === 'number') return `${indent}<real>${value}</real>`
  if (typeof value === 'string') return `${indent}<string>${escape(value)}</string>`
  if (value instanceof Uint8Array) return `${indent}<data>${Buffer.from(value).toString('base64')}</data>`
  const inner = `${indent} `
  const items = asArray(value)
  const lines =
    items === undefined
      ? Object.entries(value).flatMap(([key, one]) => [`${inner}<key>${escape(key)}</key>`, format(one, inner)])
      : items.map((item) => format(item, inner))
  const name = items === undefined ? 'dict' : 'array'
  return [`${indent}<${name}>`, ...lines, `${indent}</${name}>`].join('\n')
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

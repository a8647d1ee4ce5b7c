/** Longer names are refused by most file systems. */
const mostNameBytes = 240

/** A name on every file system: no case, no dots, no reserved words; everything unusual as `_` and two digits a byte. */
export function directoryNameOf(workloadId: string): string {
  const bytes = Buffer.from(workloadId, 'utf8')
  // Half of a surrogate pair has no UTF-8; all of them would get the same name.
  if (bytes.toString('utf8') !== workloadId) {
    throw new TypeError(`the id ${JSON.stringify(workloadId.slice(0, 40))} is no text that can be written down (UTF-8)`)
  }
  const plain = [...bytes].map((byte) => {
    const character = String.fromCodePoint(byte)
    return /[a-z\d-]/.test(character) ? character : `_${byte.toString(16).padStart(2, '0')}`
  })
  const name = `w-${plain.join('')}`
  if (name.length <= mostNameBytes) return name
  throw new TypeError(`the id '${workloadId.slice(0, 40)}…' is too long for the name of a directory`)
}

/** The other way round; `undefined` for names that no workload has. */
export function workloadIdOf(name: string): string | undefined {
  if (!name.startsWith('w-')) return undefined
  const bytes = name.slice(2).replaceAll(/_([\da-f]{2})/g, '%$1')
  try {
    const id = decodeURIComponent(bytes)
    return directoryNameOf(id) === name ? id : undefined
  } catch {
    return undefined
  }
}

import stripAnsi from 'strip-ansi'

/**
 * Text from outside (a peer's host name, a box's product name) made safe for a terminal: escape sequences and control
 * characters are removed.
 */
export function plain(text: string): string {
  return stripAnsi(text).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, '')
}

/** Breaks text at spaces into lines of at most `width`, each line after the first behind `indent`. */
export function wrap(text: string, width: number, indent: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  lines.push(line)
  return lines.join(`\n${indent}`)
}

/** `0x10de` as people write PCI ids: `10de`. */
export function hex4(id: number | undefined): string | undefined {
  return id?.toString(16).padStart(4, '0')
}

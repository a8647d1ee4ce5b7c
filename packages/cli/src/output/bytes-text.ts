/** A number of bytes as people read it, in powers of 1,000. */
export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  const power = Math.min(4, Math.floor(Math.log10(bytes) / 3))
  return `${(bytes / 1_000 ** power).toPrecision(3)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`
}

import type { Terminal } from './terminal.ts'

/** Says how far a long job is: a line that is redrawn on a terminal, and every tenth part a line of its own elsewhere. */
export function progressReport(
  what: string,
  total: number,
  terminal: Terminal,
): (done: number, where?: string) => void {
  const begun = performance.now()
  let toldTenths = 0
  return (done, where) => {
    const seconds = (performance.now() - begun) / 1_000
    const rate = done / Math.max(seconds, 0.001)
    const left = rate > 0 ? (total - done) / rate : 0
    const place = where === undefined ? '' : ` on ${where}`
    const text = `${what}: ${done} of ${total}${place}, ${rate.toFixed(0)}/s, ${left.toFixed(0)} s left`
    const tenths = Math.floor((done * 10) / total)
    if (terminal.isInteractive) terminal.progress(`${bar(done / total)} ${text}`)
    else if (tenths > toldTenths) terminal.note(text)
    toldTenths = Math.max(toldTenths, tenths)
  }
}

function bar(share: number): string {
  const width = 20
  const full = Math.round(Math.min(1, share) * width)
  return '█'.repeat(full) + '░'.repeat(width - full)
}

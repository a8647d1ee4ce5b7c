import type { CudaProcess, Leaving, MoveProgress, OnProgress } from '@egpu/driver-cuda'
import { bytesText } from './bytes-text.ts'
import type { Terminal } from './terminal.ts'
import { plain, wrap } from './text.ts'

type Named = Pick<CudaProcess, 'pid' | 'name'>

export function programName({ name, pid }: Named): string {
  return `${plain(name)} (pid ${pid})`
}

export function programNames(programs: readonly Named[]): string {
  return programs.map(programName).join(', ')
}

export function stateText({ state, group, pid }: CudaProcess): string {
  const others = group.filter((other) => other !== pid)
  const together = others.length === 0 ? '' : `; goes together with pid ${others.join(', ')}`
  return `${state === 'checkpointed' ? 'parked in host memory' : (state ?? 'state not known')}${together}`
}

/** What would become of programs if their GPU had to go. */
export function leavingText(leaving: Leaving): string {
  const what = `${programNames(leaving.processes)}, ${bytesText(leaving.bytes)}`
  if (leaving.how === 'move') return `${what}: moves to ${leaving.to}`
  if (leaving.how === 'park') return `${what}: is parked in host memory, until \`egpu resume\``
  return `${what}: stays: ${plain(leaving.reason)}`
}

/** What ejecting a GPU would mean for the CUDA programs on it. */
export function printLeavings(leavings: readonly Leaving[], { print, columns, colors }: Terminal): void {
  for (const leaving of leavings) {
    const text = `  ${wrap(leavingText(leaving), columns - 2, '  ')}`
    print(leaving.how === 'stay' ? colors.red(text) : text)
  }
}

const verbs: Readonly<Record<MoveProgress['step'], string>> = {
  lock: 'stopping',
  checkpoint: 'copying to host memory',
  restore: 'copying to the GPU',
  unlock: 'setting to work',
}

/** A line that is redrawn on a terminal, and every quarter a line of its own elsewhere. */
export function moveReport(terminal: Terminal): OnProgress {
  let [begun, job, toldQuarters] = [0, '', 0]
  return (progress) => {
    const { step, doneBytes, totalBytes, remainingMs } = progress
    const now = performance.now()
    const name = `${programName(progress)}: ${verbs[step]}`
    if (name !== job) [begun, job, toldQuarters] = [now, name, 0]
    const share = totalBytes === 0 ? 1 : Math.min(1, doneBytes / totalBytes)
    const rate = bytesText(doneBytes / (Math.max(1, now - begun) / 1_000))
    const left = remainingMs === undefined ? '' : `, ${Math.ceil(remainingMs / 1_000)} s left`
    const text = `${name}, ${bytesText(doneBytes)} of ${bytesText(totalBytes)}, ${rate}/s${left}`
    const quarters = Math.floor(share * 4)
    if (terminal.isInteractive) terminal.progress(text)
    else if (quarters > toldQuarters) terminal.note(text)
    toldQuarters = Math.max(toldQuarters, quarters)
  }
}

import { closeSync, openSync, readFileSync, readSync } from 'node:fs'

/** A process as /proc shows it. */
export interface ProcessFacts {
  readonly pid: number
  /** Clock ticks since boot; with the pid it names one process and no later one. */
  readonly startTime: string
  readonly parentPid: number
  readonly processGroup: number
  readonly uid: number | undefined
  readonly name: string
  /** Empty for a process that hides it. */
  readonly command: readonly string[]
}

/** PF_EXITING of linux/sched.h, in the flags of /proc/<pid>/stat. */
const exiting = 0x4

/** `undefined` when there is no such process, or when it is over. */
export function readProcess(procRoot: string, pid: number): ProcessFacts | undefined {
  const stat = readText(`${procRoot}/${pid}/stat`)
  if (stat === undefined) return undefined
  const { name, fields } = partsOf(stat)
  if (isOver(fields)) return undefined
  const [, parent, group] = fields
  const uid = /^Uid:\s+\d+\s+(\d+)/m.exec(readText(`${procRoot}/${pid}/status`) ?? '')?.[1]
  return {
    pid,
    startTime: fields[19] ?? '',
    parentPid: Number(parent),
    processGroup: Number(group),
    uid: uid === undefined ? undefined : Number(uid),
    name,
    command: (readText(`${procRoot}/${pid}/cmdline`) ?? '').split('\0').filter((part) => part !== ''),
  }
}

/** It is ending, or has ended and its parent has not taken note yet; NVML may go on listing it for a moment. */
export function hasEnded(procRoot: string, pid: number): boolean {
  const stat = readText(`${procRoot}/${pid}/stat`)
  return stat !== undefined && isOver(partsOf(stat).fields)
}

/** The name, and the fields from the third on. The name may hold blanks and parentheses itself (proc_pid_stat(5)). */
function partsOf(stat: string): { readonly name: string; readonly fields: readonly string[] } {
  const end = stat.lastIndexOf(')')
  return { name: stat.slice(stat.indexOf('(') + 1, end), fields: stat.slice(end + 2).split(' ') }
}

/** A process that is exiting keeps its state for a while, and shows an empty address space and no files. */
function isOver([state, , , , , , flags]: readonly string[]): boolean {
  return state === 'Z' || state === 'X' || (Number(flags) & exiting) !== 0
}

/** Resident memory of a process, in bytes. */
export function residentBytes(procRoot: string, pid: number): number | undefined {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readText(`${procRoot}/${pid}/status`) ?? '')?.[1]
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024
}

const elfMagic = 0x7f454c46

/** The ELF machine of the program (e_machine), such as 62 for x86-64; `undefined` when it may not be read. */
export function elfMachine(procRoot: string, pid: number): number | undefined {
  let file: number | undefined
  try {
    file = openSync(`${procRoot}/${pid}/exe`, 'r')
    const header = Buffer.alloc(20)
    if (readSync(file, header) < header.length || header.readUInt32BE(0) !== elfMagic) return undefined
    return header.readUInt16LE(18)
  } catch {
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Login names by user id, from the system's own list as it is now; the id itself for a user it does not have. */
export function userNames(): (uid: number) => string {
  const lines = (readText('/etc/passwd') ?? '').split('\n').map((line) => line.split(':'))
  const names = new Map(lines.map(([name = '', , uid = '']) => [uid, name]))
  return (uid) => names.get(String(uid)) ?? String(uid)
}

export function bootId(procRoot: string): string {
  return readText(`${procRoot}/sys/kernel/random/boot_id`)?.trim() ?? ''
}

export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

import { randomBytes, timingSafeEqual } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { homedir, userInfo } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { makeDirectorySync } from '@egpu/migrator/node'

const wellFormed = /^[\da-f]{64}$/

/**
 * The secret that a page has to know. It is kept in a file only its owner can read, so that a page that is open goes on
 * after the dashboard was started anew.
 */
export function dashboardToken(directory: string = stateDirectory()): string {
  const file = join(directory, 'dashboard-token')
  try {
    const kept = readFileSync(file, 'utf8').trim()
    if (wellFormed.test(kept)) return kept
  } catch {
    // Not there yet, or not readable: a new one is as good.
  }
  const token = randomBytes(32).toString('hex')
  makeDirectorySync(directory, 0o700)
  writeFileSync(file, `${token}\n`, { mode: 0o600 })
  return token
}

/** Compares without telling by its time how much was right. */
export function isToken(token: string, offered: string | undefined): boolean {
  if (offered === undefined || offered.length !== token.length) return false
  return timingSafeEqual(Buffer.from(offered), Buffer.from(token))
}

/** As the XDG base directory specification has it, on every system: a path that is not absolute counts as none. */
export function stateDirectory(
  given: string | undefined = process.env['XDG_STATE_HOME'],
  home: string = homedir(),
): string {
  if (given !== undefined && isAbsolute(given)) return join(given, 'egpu')
  // An empty HOME would put the secret into whatever directory this was started in.
  return join(isAbsolute(home) ? home : userInfo().homedir, '.local', 'state', 'egpu')
}

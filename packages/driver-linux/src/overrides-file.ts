import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { Finding } from '@egpu/core'
import { readText } from './quiet-files.ts'
import { parseOverrides } from './verdict/override.ts'
import type { VerdictOverride } from './verdict/override.ts'

/**
 * `$XDG_CONFIG_HOME/egpu/overrides.json`, by default below `~/.config`. As the specification has it, a path that is not
 * absolute counts as none: what lies in the working directory is not the user's word on their machine.
 */
export function defaultOverridesPath(given: string | undefined = process.env['XDG_CONFIG_HOME']): string {
  const config = given !== undefined && isAbsolute(given) ? given : join(homedir(), '.config')
  return join(config, 'egpu', 'overrides.json')
}

export interface LoadedOverrides {
  readonly overrides: readonly VerdictOverride[]
  /** What is wrong with the file; the machine is listed all the same. */
  readonly findings: readonly Finding[]
}

/** Reads the file afresh each time. No file means no overrides; a file that cannot be used becomes a finding. */
export function loadOverrides(path: string): LoadedOverrides {
  try {
    return { overrides: parseOverrides(readText(path)), findings: [] }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { overrides: [], findings: [] }
    const why = error instanceof Error ? error.message : String(error)
    const finding: Finding = {
      code: 'override-file-unusable',
      severity: 'warning',
      seen: `${path} is not used: ${why}`,
      advice: 'Correct the file or remove it.',
      evidence: [{ source: path, value: undefined }],
    }
    return { overrides: [], findings: [finding] }
  }
}

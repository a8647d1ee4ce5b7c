import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/**
 * Does work that opens GPUs with a directory of its own as XDG_RUNTIME_DIR where the session gave none (a container,
 * `sudo`, cron). Mesa's device-select layer looks there for a Wayland display, and libwayland complains on stderr when
 * the variable is missing (`connect_to_socket` in wayland-client.c); an empty directory has no display and no complaint.
 */
export async function withRuntimeDirectory<T>(work: () => Promise<T>): Promise<T> {
  const given = process.env['XDG_RUNTIME_DIR']
  if (process.platform !== 'linux' || (given !== undefined && isAbsolute(given))) return await work()
  const own = mkdtempSync(join(tmpdir(), 'egpu-runtime-'))
  const remove = (): void => rmSync(own, { recursive: true, force: true })
  process.env['XDG_RUNTIME_DIR'] = own
  // A reader that closes its pipe ends the process at once.
  process.once('exit', remove)
  try {
    return await work()
  } finally {
    process.off('exit', remove)
    if (given === undefined) delete process.env['XDG_RUNTIME_DIR']
    else process.env['XDG_RUNTIME_DIR'] = given
    remove()
  }
}

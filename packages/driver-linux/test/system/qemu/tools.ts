import { existsSync } from 'node:fs'

/** Program and the Debian package that has it. */
const tools: Readonly<Record<string, string>> = {
  '/usr/bin/qemu-system-x86_64': 'qemu-system-x86',
  '/bin/busybox': 'busybox-static',
  '/bin/kmod': 'kmod',
  '/usr/bin/cpio': 'cpio',
  '/usr/bin/iasl': 'acpica-tools',
  '/usr/bin/xz': 'xz-utils',
  '/usr/bin/apt-get': 'apt',
}

const missing = Object.entries(tools).filter(([program]) => !existsSync(program))

/** Why the machine cannot be built here; `undefined` when it can. */
export const missingTools: string | undefined =
  missing.length === 0 ? undefined : `needs the Debian packages ${missing.map(([, name]) => name).join(' ')}`

/** What a look from a process of its own found out. */
export type LookOutcome =
  | { readonly kind: 'listed'; readonly message: string }
  | { readonly kind: 'nothing'; readonly log: string }
  | { readonly kind: 'load-failed'; readonly message: string }
  | { readonly kind: 'crashed'; readonly by: string; readonly log: string }
  | { readonly kind: 'timed-out'; readonly afterMs: number }

/** Why there is no adapter, and what helps: a sentence for people. */
export function explainFailure(
  outcome: Exclude<LookOutcome, { kind: 'listed' }>,
  platform: string | undefined,
): string {
  if (outcome.kind === 'load-failed') return explainLoadFailure(outcome.message)
  if (outcome.kind === 'crashed') {
    return (
      `a graphics driver crashed the process that looked for adapters (${outcome.by})${tail(outcome.log)}; ` +
      'update or remove that driver, or name the one to use in VK_DRIVER_FILES'
    )
  }
  if (outcome.kind === 'timed-out') {
    return (
      `looking for adapters did not end within ${outcome.afterMs} ms: a graphics driver hangs, ` +
      'as it does when a GPU was unplugged under it; reboot, or name the driver to use in VK_DRIVER_FILES'
    )
  }
  return platform === 'linux' ? explainVulkan(outcome.log) : `WebGPU found no adapter${tail(outcome.log)}`
}

function explainLoadFailure(message: string): string {
  const library = /version [`'](GLIBCXX_[\d.]+|GLIBC_[\d.]+)'? not found/.exec(message)
  if (library !== null) {
    return (
      `the package webgpu needs ${library[1]}, which this system's C++ library is too old for: ` +
      'use a newer distribution, or the newest version of webgpu'
    )
  }
  return `the package webgpu cannot be loaded: ${message}`
}

/** Reads what Dawn and the Vulkan loader print. */
function explainVulkan(log: string): string {
  if (/couldn't load vulkan/i.test(log)) {
    return `the Vulkan loader cannot be loaded (${detail(log, /couldn't load vulkan: (.*)/i)}): install it (Debian: libvulkan1)`
  }
  const broken = /failed loading library associated with ICD JSON (.*?)\. Ignoring/i.exec(log)
  if (broken !== null) {
    return `the Vulkan driver ${broken[1]} cannot be loaded, and there is no other: reinstall it or correct VK_DRIVER_FILES`
  }
  if (/found no drivers|incompatible_driver/i.test(log)) {
    return (
      'there is no Vulkan driver (ICD): install the one for your GPU (Debian: mesa-vulkan-drivers for AMD and Intel, ' +
      'nvidia-driver for NVIDIA), or correct VK_DRIVER_FILES'
    )
  }
  return `Vulkan shows no device that WebGPU can use${tail(log)}`
}

function detail(log: string, pattern: RegExp): string {
  return pattern.exec(log)?.[1]?.trim() ?? 'no reason given'
}

function tail(log: string): string {
  const last = log.trim().split('\n').at(-1)?.trim()
  return last === undefined || last === '' ? '' : ` (last words: ${last})`
}

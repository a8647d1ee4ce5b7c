import { environmentVariable, filesAt, homeDirectory, hostPlatform } from '../host.ts'

/**
 * The manifests of the Vulkan drivers that the loader would load, where it finds them in files: on Linux, in the order
 * of the loader's documentation (LoaderDriverInterface.md, "Driver Discovery on Linux"). Empty on other systems.
 */
export function driverManifests(): readonly string[] {
  if (hostPlatform() !== 'linux') return []
  const named = namedDrivers()
  const places = named ?? [...paths('VK_ADD_DRIVER_FILES'), ...searchDirectories()]
  return [...new Set(places.flatMap((place) => filesAt(place, '.json')))]
}

/** What the user named as the drivers to be used; `undefined` when that is left to the system. */
export function namedDrivers(): readonly string[] | undefined {
  const named = paths('VK_DRIVER_FILES')
  const old = named.length > 0 ? named : paths('VK_ICD_FILENAMES')
  return old.length > 0 ? old : undefined
}

/** Makes a process load these drivers and no others; loaders before 1.3.207 know only the second name. */
export function onlyDrivers(manifests: readonly string[]): Readonly<Record<string, string>> {
  const list = manifests.join(':')
  return { VK_DRIVER_FILES: list, VK_ICD_FILENAMES: list }
}

/** Where browsers keep SwiftShader, a Vulkan driver that runs on the CPU. */
const swiftShaders = [
  '/usr/lib/chromium/vk_swiftshader_icd.json',
  '/usr/lib64/chromium-browser/vk_swiftshader_icd.json',
  '/opt/google/chrome/vk_swiftshader_icd.json',
  '/snap/chromium/current/usr/lib/chromium-browser/vk_swiftshader_icd.json',
]

/** The manifest of an installed browser's SwiftShader. */
export function swiftShaderManifest(): string | undefined {
  return swiftShaders.find((path) => filesAt(path, '.json').length > 0)
}

function searchDirectories(): readonly string[] {
  const home = homeDirectory() ?? ''
  const bases = [
    environmentVariable('XDG_CONFIG_HOME') ?? `${home}/.config`,
    ...listed('XDG_CONFIG_DIRS', ['/etc/xdg']),
    '/usr/local/etc',
    '/etc',
    environmentVariable('XDG_DATA_HOME') ?? `${home}/.local/share`,
    ...listed('XDG_DATA_DIRS', ['/usr/local/share', '/usr/share']),
  ]
  return bases.map((base) => `${base}/vulkan/icd.d`)
}

function listed(variable: string, otherwise: readonly string[]): readonly string[] {
  const all = paths(variable)
  return all.length > 0 ? all : otherwise
}

function paths(variable: string): readonly string[] {
  return (environmentVariable(variable) ?? '').split(':').filter((path) => path !== '')
}

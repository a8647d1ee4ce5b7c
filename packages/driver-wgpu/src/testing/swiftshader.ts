import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where SwiftShader, a Vulkan driver that runs on the CPU, comes with a browser. */
const libraries = [
  '/usr/lib/chromium/libvk_swiftshader.so', // Debian: chromium-common
  '/usr/lib64/chromium-browser/libvk_swiftshader.so', // Fedora
  '/opt/google/chrome/libvk_swiftshader.so',
  '/snap/chromium/current/usr/lib/chromium-browser/libvk_swiftshader.so',
]

/** SwiftShader's library, from `EGPU_SWIFTSHADER` or an installed browser; `undefined` when there is none. */
export function findSwiftShader(): string | undefined {
  return [process.env['EGPU_SWIFTSHADER'], ...libraries].find((path) => path !== undefined && existsSync(path))
}

/** Writes the manifest that the Vulkan loader wants for a driver, and returns its path. */
export function writeDriverManifest(directory: string, library: string): string {
  const path = join(directory, 'swiftshader-icd.json')
  const manifest = { file_format_version: '1.0.0', ICD: { library_path: library, api_version: '1.1.0' } }
  writeFileSync(path, JSON.stringify(manifest))
  return path
}

import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findSwiftShader } from '../../src/testing/index.ts'

/** Mesa's device-select layer, from Debian's package mesa-vulkan-drivers: the real selector above the twins. */
export const mesaLayer = '/usr/share/vulkan/implicit_layer.d/VkLayer_MESA_device_select.json'

/** The environment in which SwiftShader passes for identical GPUs at these addresses; a reason where it cannot be made. */
export function prepareTwins(addresses: readonly string[]): Readonly<Record<string, string>> | string {
  const driver = findSwiftShader()
  if (process.platform !== 'linux' || driver === undefined) return 'does not apply to this rig: no SwiftShader'
  const directory = mkdtempSync(join(tmpdir(), 'egpu-twins-'))
  const library = join(directory, 'libtwins.so')
  const source = fileURLToPath(new URL('../native/twin-layer.c', import.meta.url))
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-pthread', '-o', library, source])
  const layer = { name: 'VK_LAYER_EGPU_twins', type: 'GLOBAL', library_path: library, api_version: '1.3.0' }
  const about = { implementation_version: '1', description: 'Makes several GPUs out of one' }
  const manifest = { file_format_version: '1.1.2', layer: { ...layer, ...about } }
  writeFileSync(join(directory, 'twins.json'), JSON.stringify(manifest))
  const icd = join(directory, 'icd.json')
  const driverManifest = { file_format_version: '1.0.0', ICD: { library_path: driver, api_version: '1.1.0' } }
  writeFileSync(icd, JSON.stringify(driverManifest))
  return {
    VK_DRIVER_FILES: icd,
    VK_ICD_FILENAMES: icd,
    VK_LAYER_PATH: directory,
    VK_INSTANCE_LAYERS: layer.name,
    EGPU_TWINS: addresses.join(','),
  }
}

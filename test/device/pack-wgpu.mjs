/**
 * Gathers in artefacts/device-wgpu/ what the WebGPU run on real GPUs needs on a machine that has an NVIDIA driver but
 * neither Node nor a network: this Node, the bench bundled, Dawn, koffi, and from Debian the Vulkan loader with what
 * NVIDIA's driver and Mesa's device-select layer want. About 42 MB. Then, there: `sh test/device/wgpu.sh`.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { root } from '../../scripts/pnpm.mjs'

const home = join(root, 'artefacts/device-wgpu')
const room = join(root, 'packages/driver-wgpu')
const { build } = createRequire(join(room, 'package.json'))('esbuild')
const debian = [
  'libdrm2',
  'libegl1',
  'libffi8',
  'libgl1',
  'libglvnd0',
  'libglx0',
  'libopengl0',
  'libvulkan1',
  'libwayland-client0',
  'libxcb-dri3-0',
  'mesa-vulkan-drivers',
]

rmSync(home, { recursive: true, force: true })
mkdirSync(join(home, 'debian'), { recursive: true })
await build({
  entryPoints: {
    run: join(root, 'test/device/wgpu.ts'),
    // Loaded by `survive`, by these names.
    'survive-work': join(root, 'test/device/survive-work.ts'),
    'survive-child': join(root, 'packages/migrator/src/node/survive/child.ts'),
  },
  outdir: home,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: ['@egpu/source'],
})
const modules = join(home, 'node_modules')
const webgpu = realpathSync(join(room, 'node_modules/webgpu'))
for (const part of ['package.json', 'index.js', 'dist/linux-x64']) {
  cpSync(join(webgpu, part), join(modules, 'webgpu', part), { recursive: true })
}
const koffi = realpathSync(join(room, 'node_modules/koffi'))
cpSync(koffi, join(modules, 'koffi'), {
  recursive: true,
  filter: (path) => !/\/(doc|vendor)$|\.(cc|hh|S|asm)$/.test(path),
})
cpSync(join(koffi, '../@koromix/koffi-linux-x64'), join(modules, '@koromix/koffi-linux-x64'), {
  recursive: true,
  dereference: true,
})
cpSync(join(room, 'src/native'), join(home, 'native'), { recursive: true })
cpSync(join(root, 'packages/migrator/src/node/chunks/worker.js'), join(home, 'chunk-worker.js'))
cpSync(join(root, 'packages/migrator/src/node/survive/parent-watch.js'), join(home, 'parent-watch.js'))
const inside = {
  '#native/*': './native/*',
  '#chunk-worker': './chunk-worker.js',
  '#parent-watch': './parent-watch.js',
}
writeFileSync(join(home, 'package.json'), JSON.stringify({ type: 'module', imports: inside }))
execFileSync('apt-get', ['-q', 'download', ...debian], { cwd: join(home, 'debian'), stdio: 'inherit' })
const node = join(home, 'node')
cpSync(realpathSync(process.execPath), node, { dereference: true })
execFileSync('strip', [node])
execFileSync('xz', ['-3', node, join(modules, 'webgpu/dist/linux-x64/dawn.node')], { stdio: 'inherit' })
console.log(`packed into ${home}`)

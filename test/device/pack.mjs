/**
 * Gathers in .device/ what the run on real GPUs needs on a machine that has an NVIDIA driver and PyTorch but neither Node
 * nor a network: this Node (gzipped), the built packages, koffi. About 45 MB. Then, there: `sh test/device/cuda.sh`.
 */
import { cpSync, createReadStream, createWriteStream, mkdirSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { pnpm, root } from '../../scripts/pnpm.mjs'

const home = join(root, '.device')
const modules = join(home, 'node_modules')

rmSync(home, { recursive: true, force: true })
const packages = ['core', 'driver-cuda', 'driver-linux']
const built = pnpm([...packages.flatMap((name) => ['--filter', `@egpu/${name}`]), 'run', 'build'])
if (built !== 0) throw new Error('the packages could not be built')
for (const name of packages) {
  for (const part of ['package.json', 'dist', 'src']) {
    cpSync(join(root, 'packages', name, part), join(modules, '@egpu', name, part), { recursive: true })
  }
}
const koffi = realpathSync(join(root, 'packages/driver-cuda/node_modules/koffi'))
cpSync(koffi, join(modules, 'koffi'), { recursive: true })
cpSync(join(koffi, '../@koromix/koffi-linux-x64'), join(modules, '@koromix/koffi-linux-x64'), {
  recursive: true,
  dereference: true,
})
const emitter = realpathSync(join(root, 'packages/core/node_modules/eventemitter3'))
cpSync(emitter, join(modules, 'eventemitter3'), { recursive: true })
mkdirSync(home, { recursive: true })
await pipeline(createReadStream(realpathSync(process.execPath)), createGzip(), createWriteStream(join(home, 'node.gz')))
console.log(`packed into ${home}`)

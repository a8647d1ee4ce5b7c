import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Options } from 'tsup'
import { library } from '../../tsup.base.ts'

const page = 'src/dashboard/page'

/** What goes into the page with its own licence, which asks to be shipped along. */
async function writeNotices(): Promise<void> {
  const notices = ['preact', 'uplot'].map(async (name) => {
    const folder = new URL(`./node_modules/${name}/`, import.meta.url)
    return `${name}\n\n${await readFile(fileURLToPath(new URL('LICENSE', folder)), 'utf8')}`
  })
  await writeFile('dist/dashboard/THIRD-PARTY.txt', (await Promise.all(notices)).join('\n\n'))
}

const config: Options[] = [
  library({ index: 'src/index.ts', bin: 'src/bin.ts' }, { clean: ['dist/*', '!dist/dashboard'] }),
  {
    entry: { page: `${page}/main.tsx` },
    outDir: 'dist/dashboard',
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    minify: true,
    // The browser has no package manager: everything goes in.
    noExternal: [/.*/],
    esbuildOptions: (options) => {
      options.jsx = 'automatic'
      options.jsxImportSource = 'preact'
    },
    onSuccess: async () => {
      await copyFile(`${page}/index.html`, 'dist/dashboard/index.html')
      await writeNotices()
    },
  },
]

export default config

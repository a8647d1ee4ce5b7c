import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import ts from 'typescript'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runCli, type Terminal } from '../packages/cli/src/index.ts'
import { root, rooms } from './workspace.ts'

/** What tells people to type something. */
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(root, 'docs/guides')).map((name) => `docs/guides/${name}`),
  'docs/writing-a-driver.md',
  'docs/errors.md',
  'docs/performance.md',
  ...rooms('packages').map(({ path }) => relative(root, join(path, 'README.md'))),
]

interface Block {
  readonly page: string
  readonly language: string
  readonly text: string
}

const blocks = pages.flatMap((page): Block[] =>
  [...readFileSync(join(root, page), 'utf8').matchAll(/^```(\w*)\n([\s\S]*?)^```/gm)].map(
    ([, language = '', text = '']) => ({ page, language, text }),
  ),
)

describe('code in guides', () => {
  /** The CLI depends on every package, so all of them can be imported there. */
  const home = join(root, 'packages/cli')
  const files = new Map(
    blocks
      .filter(({ language }) => language === 'ts')
      .map(({ page, text }, index) => [join(home, `guide-${index}.ts`), { page, text: withSurroundings(text) }]),
  )

  /** What a snippet takes for granted. Other names it does not declare are the reader's own. */
  function withSurroundings(text: string): string {
    const core = "import('@egpu/core')"
    const given = { manager: `${core}.EGpuManager`, open: `${core}.OpenTarget<GPUDevice>`, id: 'string' }
    const missing = Object.entries(given).filter(([name]) => !new RegExp(`(const|using|let) ${name}\\b`).test(text))
    return [...missing.map(([name, type]) => `declare const ${name}: ${type}`), text, 'export {}'].join('\n')
  }

  it('is right for the packages as they are', () => {
    const { config } = ts.readConfigFile(join(home, 'tsconfig.json'), (path) => ts.sys.readFile(path))
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, home)
    const compiler: ts.CompilerOptions = { ...options, isolatedDeclarations: false, declaration: false }
    const disk = ts.createCompilerHost(compiler)
    const host: ts.CompilerHost = {
      ...disk,
      fileExists: (path) => files.has(path) || disk.fileExists(path),
      readFile: (path) => files.get(path)?.text ?? disk.readFile(path),
      getSourceFile: (path, languageOptions, ...rest) => {
        const text = files.get(path)?.text
        return text === undefined
          ? disk.getSourceFile(path, languageOptions, ...rest)
          : ts.createSourceFile(path, text, languageOptions)
      },
    }
    const program = ts.createProgram([...files.keys()], compiler, host)
    const wrong = [...files].flatMap(([path, { page }]) => {
      const source = program.getSourceFile(path)
      return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
        .filter((diagnostic) => !isReaders(diagnostic))
        .map(({ messageText }) => `${page}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`)
    })
    expect(files.size).toBeGreaterThan(20)
    expect(wrong).toEqual([])
  })

  /** A name or a package that only the reader has, and what follows from its being unknown here. */
  function isReaders({ code, messageText }: ts.Diagnostic): boolean {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n')
    const unknownName = [2304, 2552, 18004]
    const unknownModule = [2307, 7016]
    return unknownName.includes(code) || code === 7006 || (unknownModule.includes(code) && !text.includes('@egpu/'))
  }

  it('the ten lines of the README print what happens to a GPU', { timeout: 60_000 }, () => {
    const lines = blocks.find(({ page, language }) => page === 'README.md' && language === 'js')
    const args = ['--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', lines?.text ?? '']
    const printed = execFileSync(process.execPath, args, { cwd: home, encoding: 'utf8' }).trim().split('\n')
    expect(printed).toEqual([
      'RTX 4090 is ready: external',
      expect.stringMatching(/^RTX 4090 is going: /),
      'pulled without warning',
    ])
  })

  it('the smallest use of the migrator survives its cable', { timeout: 60_000 }, () => {
    const [main, sum] = blocks.filter(
      ({ page, language }) => page === 'packages/migrator/README.md' && language === 'ts',
    )
    const folder = mkdtempSync(join(home, 'node_modules/.readme-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(folder, 'main.ts'), main?.text ?? '')
    writeFileSync(join(folder, 'sum.ts'), sum?.text ?? '')
    const args = ['--conditions=@egpu/source', '--import=tsx', join(folder, 'main.ts')]
    const printed = execFileSync(process.execPath, args, { cwd: home, encoding: 'utf8' }).trim().split('\n')
    expect(printed).toEqual(['began on RTX 4090', expect.stringMatching(/^sum is on CPU after /), '500500'])
  })
})

/** Lines that a person would type, and commands named in the text. */
const typed = pages.flatMap((page) => {
  const shell = blocks.filter((block) => block.page === page && ['', 'sh'].includes(block.language))
  const prose = readFileSync(join(root, page), 'utf8').replaceAll(/^```[\s\S]*?^```/gm, '')
  return [
    ...shell.flatMap(({ text }) => text.split('\n')),
    ...[...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code),
  ].map((line) => ({
    page,
    line: line
      .replace(/\s+#.*$/, '')
      .replace(/^[\w-]*\$ /, '')
      .trim(),
  }))
})

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>
}

describe('commands in guides', () => {
  const helps = new Map<string, Promise<string>>()

  function helpOf(path: readonly string[]): Promise<string> {
    const key = path.join(' ')
    const known = helps.get(key)
    if (known !== undefined) return known
    const lines: string[] = []
    const print = (line = ''): void => void lines.push(line)
    const terminal: Partial<Terminal> = { print, note: print, columns: 200, isInteractive: false }
    // Help needs no more of a terminal.
    const help = runCli([...path, '--help'], terminal as Terminal).then(() => lines.join('\n'))
    helps.set(key, help)
    return help
  }

  /** What of a command line the CLI does not know. */
  async function unknownIn(line: string): Promise<string | undefined> {
    const words = line.split(/\s+/)
    const path: string[] = []
    for (;;) {
      const [, commands] = (await helpOf(path)).split('Commands:')
      const word = words[path.length] ?? ''
      if (commands === undefined || !/^[a-z]+$/.test(word)) break
      if (!new RegExp(`^ {2}${word}\\b`, 'm').test(commands)) return word
      path.push(word)
    }
    const help = await helpOf(path)
    const end = words.includes('--') ? words.indexOf('--') : words.length
    return words
      .slice(path.length, end)
      .flatMap((word) => /^\[?(-{1,2}[a-z][\w-]*)/.exec(word)?.[1] ?? [])
      .find((option) => !help.includes(option))
  }

  it('the CLI knows every command and option they name', async () => {
    const lines = typed.flatMap(({ page, line }) => {
      const [, rest] = /^(?:npm run egpu --|egpu|npx @egpu\/cli) (.+)$/.exec(line) ?? []
      return rest === undefined ? [] : [{ page, rest: rest.replaceAll('\\|', '|').replace(/\b(\w+)\|[\w|]+/, '$1') }]
    })
    expect(lines.length).toBeGreaterThan(30)
    const wrong: string[] = []
    for (const { page, rest } of lines) {
      const unknown = await unknownIn(rest)
      if (unknown !== undefined) wrong.push(`${page}: egpu ${rest}: ${unknown}`)
    }
    expect(wrong).toEqual([])
  })

  it('the workspace has every script they name', () => {
    const own = new Set(['install', 'ci', ...readdirSync(join(root, 'node_modules/.bin'))])
    const wrong = typed.flatMap(({ page, line }) => {
      const [, name = ''] = /^(?:pnpm|npm)(?: run)? ([\w:-]+)/.exec(line) ?? []
      return name === '' || name.startsWith('-') || own.has(name) || name in manifest.scripts
        ? []
        : [`${page}: ${line}`]
    })
    expect(wrong).toEqual([])
  })

  it('every file that node or sh is told to run is there', () => {
    const wrong = typed.flatMap(({ page, line }) => {
      const file = /^(?:node|sh)(?: --\S+)* ((?:scripts|test|packages|examples)\/\S+)/.exec(line)?.[1]
      return file === undefined || ts.sys.fileExists(join(root, file)) ? [] : [`${page}: ${line}`]
    })
    expect(wrong).toEqual([])
  })
})

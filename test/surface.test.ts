import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { entries, root, rooms } from './workspace.ts'

/**
 * What users can import, by name and kind. A red test here does not forbid a change; it means the change is seen from
 * outside: update the snapshot (`vitest run -u`) and write a changeset.
 */
const published = rooms('packages').flatMap((room) =>
  entries(room).map(([subpath, file]) => ({ id: join(room.manifest.name, subpath), file })),
)

const { config } = ts.readConfigFile(join(root, 'tsconfig.base.json'), (path) => ts.sys.readFile(path))
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
const program = ts.createProgram(
  published.map(({ file }) => file),
  options,
)
const checker = program.getTypeChecker()

function kind(symbol: ts.Symbol): string {
  const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  const words: [ts.SymbolFlags, string][] = [
    [ts.SymbolFlags.Class, 'class'],
    [ts.SymbolFlags.Function, 'function'],
    [ts.SymbolFlags.Variable, 'const'],
    [ts.SymbolFlags.Interface, 'interface'],
    [ts.SymbolFlags.TypeAlias, 'type'],
  ]
  return words.flatMap(([flag, word]) => (target.flags & flag ? [word] : [])).join('+')
}

describe('published surface', () => {
  it.each(published)('$id exports what was reviewed', async ({ id, file }) => {
    const source = program.getSourceFile(file)
    const module = source === undefined ? undefined : checker.getSymbolAtLocation(source)
    expect(module, `${file} is not a module`).toBeDefined()
    const lines = checker
      .getExportsOfModule(module as ts.Symbol)
      .map((symbol) => `${symbol.name}: ${kind(symbol)}`)
      .sort()
    await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(`surface/${id.slice(1).replaceAll('/', '.')}.txt`)
  })
})

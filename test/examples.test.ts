import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { rooms } from './workspace.ts'

const examples = rooms('examples').map(({ path }) => ({ name: basename(path), path }))

/**
 * What somebody has to read to understand an example: lines of code, without comments, imports and blank lines, and
 * without the main program, which only runs it.
 */
const mostLines = 60

function linesOfCode(file: string): number {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true)
  const lines = new Set<number>()
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isJSDoc(node)) return
    if (node.getChildCount(source) > 0) return node.getChildren(source).forEach(visit)
    const [from, to] = [node.getStart(source), node.getEnd()].map((at) => source.getLineAndCharacterOfPosition(at).line)
    if (node.getWidth(source) > 0) for (let line = from ?? 0; line <= (to ?? 0); line += 1) lines.add(line)
  }
  visit(source)
  return lines.size
}

describe('examples', () => {
  it.each(examples)(`$name has at most ${mostLines} lines of code of its own`, ({ path }) => {
    const files = readdirSync(join(path, 'src')).filter((name) => name !== 'main.ts')
    expect(files.length).toBeGreaterThan(0)
    expect(files.reduce((sum, file) => sum + linesOfCode(join(path, 'src', file)), 0)).toBeLessThanOrEqual(mostLines)
  })

  it.each(examples)('the README of $name says how to run it and shows what it prints', ({ path, name }) => {
    const blocks = readFileSync(join(path, 'README.md'), 'utf8').split('```')
    expect(blocks.length).toBeGreaterThanOrEqual(5)
    expect(blocks[1]).toContain(`pnpm --filter @egpu-examples/${name} start`)
    expect((blocks[3] ?? '').trim().split('\n').length).toBeGreaterThan(1)
  })
})

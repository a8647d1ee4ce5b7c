import { unreadable } from '../machines/tree.ts'
import type { Entry, Tree } from '../machines/tree.ts'
import type { Random } from './random.ts'

const nasty: readonly string[] = [
  '',
  '\n',
  '\0',
  '255\n',
  '-1\n',
  '0x\n',
  '99999999999999999999\n',
  'Infinity\n',
  '1e309\n',
  '0xffffffff\n',
  '64.0 GT/s PCIe\n',
  '0.0 Gb/s\n',
  '999.0 Gb/s\n',
  '\u001b]0;x\u0007\u001b[31m\n',
  '\u202egnp.exe\n',
  '\ud800',
  '__proto__\n',
  '../../../../etc/passwd',
  '00000000-0000-0000-ffff-ffffffffffff\n',
  'x'.repeat(100_000),
  '=\n=\n==',
]

/** A text that some hardware, kernel or villain might give instead of this one. */
export function mutateText(text: string, random: Random): string {
  switch (random.below(7)) {
    case 0:
      return nasty[random.below(nasty.length)] as string
    case 1:
      return text.slice(0, random.below(text.length + 1))
    case 2:
      return text + text
    case 3: {
      const at = random.below(text.length + 1)
      return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + 1)
    }
    case 4:
      return text.replace(/\d/g, (digit) => (random.below(3) === 0 ? String(random.below(10)) : digit))
    case 5:
      return Array.from({ length: random.below(40) }, () => String.fromCharCode(random.below(65_536))).join('')
    default:
      return text.toUpperCase().replaceAll(' ', '\t')
  }
}

/**
 * A tree with one to a dozen things wrong among `paths`: texts, missing and unreadable entries, loops, misplaced parts,
 * odd names.
 */
export function mutateTree(tree: Tree, paths: readonly string[], random: Random): Tree {
  const mutated = new Map(tree)
  for (let count = random.below(12) + 1; count > 0; count -= 1) {
    const path = paths[random.below(paths.length)] as string
    const entry = mutated.get(path)
    if (entry !== undefined) mutateEntry(mutated, path, entry, paths, random)
  }
  return mutated
}

function mutateEntry(
  tree: Map<string, Entry>,
  path: string,
  entry: Entry,
  paths: readonly string[],
  random: Random,
): void {
  const elsewhere = paths[random.below(paths.length)] as string
  switch (random.below(8)) {
    case 0:
      tree.delete(path)
      return
    case 1:
      tree.set(path, unreadable)
      return
    case 2:
      tree.set(path, { to: path.slice(path.lastIndexOf('/') + 1) })
      return
    case 3:
      tree.set(path, { to: `${'../'.repeat(path.split('/').length - 1)}${elsewhere}` })
      return
    case 4:
      tree.set(path, tree.get(elsewhere) ?? '')
      return
    case 5:
      tree.set(
        `${path.slice(0, path.lastIndexOf('/'))}/${mutateText(path.slice(path.lastIndexOf('/') + 1), random).replaceAll('/', '')}`,
        entry,
      )
      return
    default:
      if (typeof entry === 'string') tree.set(path, mutateText(entry, random))
      else if (entry !== unreadable) tree.set(path, { to: mutateText(entry.to, random) })
  }
}

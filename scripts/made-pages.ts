/** Writes the pages of docs/ that are made from the drivers and from recorded benches, so that they say no more. */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { performancePage } from '../test/performance-tables.ts'
import { platformSupport } from '../test/platform-support.ts'

const page = (name: string): string => fileURLToPath(new URL(`../docs/${name}.md`, import.meta.url))

writeFileSync(page('platform-support'), await platformSupport())
writeFileSync(page('performance'), performancePage(readFileSync(page('performance'), 'utf8')))

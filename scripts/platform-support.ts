/** Writes docs/platform-support.md from what the drivers declare, so that the page cannot say more than they do. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { platformSupport } from '../test/platform-support.ts'

writeFileSync(fileURLToPath(new URL('../docs/platform-support.md', import.meta.url)), await platformSupport())

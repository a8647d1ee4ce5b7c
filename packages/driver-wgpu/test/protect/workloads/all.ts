import { attachments } from './attachments.ts'
import { compute } from './compute.ts'
import { flock } from './flock.ts'
import { mapping } from './mapping.ts'
import { render } from './render.ts'
import { texturedBall } from './textured-ball.ts'
import { textures } from './textures.ts'
import type { Workload } from './workload.ts'

/** Written for the purpose, each with kinds of calls of its own. */
export const workloads: readonly Workload[] = [compute, render, textures, attachments, mapping]

/** What applications do, with code that others wrote or in their manner. */
export const applications: readonly Workload[] = [texturedBall, flock]

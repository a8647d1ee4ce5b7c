import { attachments } from './attachments.ts'
import { compute } from './compute.ts'
import { mapping } from './mapping.ts'
import { render } from './render.ts'
import { textures } from './textures.ts'
import type { Workload } from './workload.ts'

export const workloads: readonly Workload[] = [compute, render, textures, attachments, mapping]

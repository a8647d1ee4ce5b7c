import { Hono } from 'hono'
import { stream, streamSSE } from 'hono/streaming'
import { EGpuError } from '@egpu/core'
import { toJson } from '../output/json.ts'
import type { PageFile } from './page-files.ts'
import { ejectLines, ejectPlan } from './eject.ts'
import type { Feed } from './feed.ts'
import { guard, headers } from './guard.ts'
import type { DashboardMachine } from './machine.ts'
import { cableActions, type CableAction } from './protocol.ts'
import { followFeed } from './stream.ts'

export interface AppOptions {
  readonly machine: DashboardMachine
  readonly feed: Feed
  readonly token: string
  /** Known only once it listens. */
  readonly port: () => number
  readonly page: ReadonlyMap<string, PageFile>
  /** Ends every stream. */
  readonly signal: AbortSignal
}

/** Everything the dashboard answers. */
export function dashboardApp({ machine, feed, token, port, page, signal }: AppOptions): Hono {
  const app = new Hono()
  app.use(headers)
  app.use(guard(token, port))

  app.get('/api/stream', (context) =>
    streamSSE(context, (sse) => {
      const gone = new AbortController()
      sse.onAbort(() => gone.abort())
      return followFeed(
        feed,
        context.req.header('last-event-id'),
        (message) => sse.writeSSE(message),
        AbortSignal.any([signal, gone.signal]),
      )
    }),
  )

  app.get('/api/devices/:id/plan', async (context) =>
    json(await ejectPlan(machine, context.req.param('id'), context.req.raw.signal)),
  )

  app.post('/api/devices/:id/eject', (context) => {
    const { id } = machine.manager.get(context.req.param('id'))
    context.header('content-type', 'application/x-ndjson')
    return stream(context, (out) =>
      ejectLines(machine.manager, id, signal, async (line) => {
        await out.writeln(JSON.stringify(line))
      }),
    )
  })

  app.post('/api/cables/:id/:action', (context) => {
    const { id, action } = context.req.param()
    if (machine.simulator === undefined) return context.text('only a simulated cable can be pulled from here', 404)
    if (!(cableActions as readonly string[]).includes(action)) return context.text(`no such action: ${action}`, 404)
    machine.simulator.act(id, action as CableAction)
    return context.body(null, 204)
  })

  app.get('*', (context) => {
    const file = page.get(context.req.path)
    if (file === undefined) return context.text('not found', 404)
    return context.body(file.bytes, 200, { 'content-type': file.type, 'cache-control': 'no-cache' })
  })

  app.onError((error, context) => {
    if (EGpuError.is(error)) return context.json({ code: error.code, message: error.message }, 409)
    if (error instanceof TypeError) return context.json({ message: error.message }, 409)
    return context.json({ message: String(error) }, 500)
  })
  return app
}

function json(value: unknown): Response {
  return new Response(toJson(value), { headers: { 'content-type': 'application/json' } })
}

import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { CommandError } from '../command-error.ts'
import { dashboardApp } from './app.ts'
import { Feed } from './feed.ts'
import type { DashboardMachine } from './machine.ts'
import type { PageFile } from './page-files.ts'

export interface RunningDashboard extends AsyncDisposable {
  /** What to open in a browser; has the token. */
  readonly url: string
  readonly port: number
}

export interface StartOptions {
  readonly machine: DashboardMachine
  readonly token: string
  /** 0 for any that is free. */
  readonly port: number
  readonly page: ReadonlyMap<string, PageFile>
}

/** Serves a dashboard on the loopback interface. Rejects with a sentence to act on when the port is taken. */
export async function startDashboard({ machine, token, port, page }: StartOptions): Promise<RunningDashboard> {
  const stop = new AbortController()
  const feed = new Feed(machine)
  let bound = port
  const app = dashboardApp({ machine, feed, token, page, port: () => bound, signal: stop.signal })
  const server = createAdaptorServer({ fetch: app.fetch })
  const close = async (): Promise<void> => {
    stop.abort()
    feed[Symbol.dispose]()
    if (!server.listening) return
    const closed = new Promise((resolve) => server.close(resolve))
    if ('closeAllConnections' in server) server.closeAllConnections()
    await closed
  }
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', resolve)
    })
  } catch (error) {
    await close()
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    throw new CommandError(
      'EADDRINUSE',
      `port ${port} is taken, perhaps by another dashboard; close that one or choose a port with --port (0 for any)`,
      { cause: error },
    )
  }
  bound = (server.address() as AddressInfo).port
  return { url: `http://127.0.0.1:${bound}/?token=${token}`, port: bound, [Symbol.asyncDispose]: close }
}

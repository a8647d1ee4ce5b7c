import { fileURLToPath } from 'node:url'
import type { Network } from '../helpers/namespaces.ts'
import type { PullJob, PullNews } from './puller-process.ts'
import type { RemoteSender } from './remote-sender.ts'

type Done = Extract<PullNews, { kind: 'done' }>
type Failed = Extract<PullNews, { kind: 'failed' }>

/** Pulls what a sender offers from inside a host of a network. Rejects with what went wrong there. */
export async function remotePull(...args: Parameters<typeof tryRemotePull>): Promise<Done> {
  const news = await tryRemotePull(...args)
  if (news.kind === 'failed') throw new Error(news.message)
  return news
}

/** The same, resolving also when it failed. */
export function tryRemotePull(
  network: Network,
  host: string,
  sender: RemoteSender,
  job: Omit<PullJob, 'address' | 'ref'>,
): Promise<Done | Failed> {
  const script = fileURLToPath(new URL('./puller-process.ts', import.meta.url))
  const child = network.spawn(host, process.execPath, ['--conditions=@egpu/source', '--import=tsx', script])
  return new Promise<Done | Failed>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the receiver ended with ${code}`)))
    child.on('message', (news: PullNews) => {
      if (news.kind === 'ready') child.send({ ...job, address: sender.address, ref: sender.ref })
      else if (news.kind === 'ticket') void sender.ticket().then((token) => child.send({ token }))
      else resolve(news)
    })
  }).finally(() => child.kill('SIGKILL'))
}

import { fileURLToPath } from 'node:url'
import type { Network } from '../helpers/namespaces.ts'
import type { PullJob, PullNews } from './puller-process.ts'
import type { RemoteSender } from './remote-sender.ts'

type Done = Extract<PullNews, { kind: 'done' }>

/** Pulls what a sender offers from inside a host of a network. Rejects with what went wrong there. */
export function remotePull(
  network: Network,
  host: string,
  sender: RemoteSender,
  job: Pick<PullJob, 'links' | 'to' | 'patienceMs'>,
): Promise<Done> {
  const script = fileURLToPath(new URL('./puller-process.ts', import.meta.url))
  const child = network.spawn(host, process.execPath, ['--conditions=@egpu/source', '--import=tsx', script])
  return new Promise<Done>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the receiver ended with ${code}`)))
    child.on('message', (news: PullNews) => {
      if (news.kind === 'ready') child.send({ ...job, address: sender.address, ref: sender.ref })
      else if (news.kind === 'ticket') void sender.ticket().then((token) => child.send({ token }))
      else if (news.kind === 'done') resolve(news)
      else reject(new Error(news.message))
    })
  }).finally(() => child.kill('SIGKILL'))
}

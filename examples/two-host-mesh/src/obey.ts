import type { Host, Say } from './host.ts'

/** Says where work runs on a host, and does what it is told, word by word. */
export async function obey({ mesh, remote, eGpu }: Host, words: AsyncIterable<string>, say: Say): Promise<void> {
  remote.onRun(({ run }) => void run.started.then(({ name }) => say(`runs on ${name}`), console.error))
  const begin = async (ownerIsDead = false): Promise<unknown> =>
    (await remote.run('primes', 'count-primes', { ownerIsDead })).run.started
  const peerId = (): string => mesh.bestPeer({ for: 'memory' })?.peerId ?? mesh.nodeId
  const deeds: Record<string, () => Promise<unknown>> = {
    begin: () => begin(),
    standby: async () => remote.runs[0]?.standBy(peerId()),
    pull: async () => eGpu.machine.enclosures[0]?.yank(),
    move: async () => remote.runs[0]?.moveToPeer(peerId()),
    bury: () => begin(true),
  }
  for await (const word of words)
    await deeds[word]?.().then(
      () => say(`${word}: done`),
      (error: Error) => say(error.message),
    )
}

import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { directoryStore } from '@egpu/migrator/node'

/** Holds a store in a thread and asks for it in the main one: while the thread lives, and once it was ended. */
if (isMainThread) {
  const directory = process.argv[2] ?? ''
  // A thread of Node 20 has to be told how to load this file.
  const start = `import('tsx/esm/api').then(({ register }) => (register(), import(${JSON.stringify(import.meta.url)})))`
  const thread = new Worker(start, { eval: true, workerData: directory })
  await new Promise((resolve) => thread.once('message', resolve))
  const outcomes: string[] = []
  const ask = async (): Promise<void> => {
    await using store = directoryStore(directory)
    outcomes.push(
      await store.acquire('job').then(
        (token) => `token ${token}`,
        (error: Error) => error.message,
      ),
    )
  }
  await ask()
  await thread.terminate()
  await ask()
  console.log(JSON.stringify(outcomes))
} else {
  const store = directoryStore(workerData as string)
  await store.acquire('job')
  parentPort?.postMessage('held', [])
  // Kept alive without ever giving it back.
  setInterval(() => undefined, 1_000)
}

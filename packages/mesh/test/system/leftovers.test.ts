import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { noEtcd } from '../helpers/etcd.ts'
import { noNamespaces } from '../helpers/namespaces.ts'

const reason = noNamespaces ?? noEtcd

it('a test process that is killed leaves no etcd, no host, no namespace and no file behind', async ({ skip }) => {
  skip(reason !== undefined, reason)
  const file = fileURLToPath(new URL('../ownership/etcd-holder.ts', import.meta.url))
  const child = fork(file, { execArgv: ['--conditions=@egpu/source', '--import=tsx'] })
  await once(child, 'message')
  const pids = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')
  const lines = pids.map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0'))
  const homes = lines.flatMap((words) => words.find((word) => word.startsWith('/dev/shm/egpu-etcd-')) ?? [])
  const namespaces = (): string[] =>
    readdirSync('/run/netns').filter((name) => name.startsWith(`egpu-mesh-${child.pid}-`))
  expect([homes.length, homes.filter(existsSync).length, namespaces().length]).toEqual([3, 3, 1])
  child.kill('SIGKILL')
  await expect.poll(() => pids.filter((pid) => existsSync(`/proc/${pid}`))).toEqual([])
  await expect.poll(namespaces).toEqual([])
  await expect.poll(() => homes.filter(existsSync)).toEqual([])
})

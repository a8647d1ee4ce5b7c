// Runs in the guest: does what the tests outside ask for over a virtio-serial port, one JSON line per message.
import { execFile } from 'node:child_process'
import { existsSync, openSync, read, readFileSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const portPath = '/dev/virtio-ports/agent'

async function findPort() {
  for (let tries = 0; tries < 600; tries++) {
    for (const name of ['vport0p1', 'vport1p1', 'vport2p1']) {
      if (existsSync(`/sys/class/virtio-ports/${name}`)) return `/dev/${name}`
    }
    if (existsSync(portPath)) return portPath
    await sleep(100)
  }
  throw new Error('no virtio-serial port')
}

const port = openSync(await findPort(), 'r+')

function send(message) {
  const line = Buffer.from(`${JSON.stringify(message)}\n`)
  let written = 0
  while (written < line.length) {
    try {
      written += writeSync(port, line, written)
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
    }
  }
}

/** What the tests can call. Each gets its arguments and answers with something JSON can hold. */
const methods = {
  ping: () => process.hrtime.bigint().toString(),
  sh: (command) =>
    new Promise((resolve) => {
      execFile('/bin/sh', ['-c', command], { maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : (error.code ?? 1), stdout, stderr })
      })
    }),
}

async function load(file) {
  const module = await import(file)
  Object.assign(methods, module.methods({ send }))
}

async function handle({ id, method, args }) {
  try {
    if (!(method in methods)) throw new Error(`the guest has no method ${method}`)
    send({ id, result: (await methods[method](...args)) ?? null })
  } catch (error) {
    send({ id, error: { message: String(error?.message ?? error), code: error?.code, stack: error?.stack } })
  }
}

process.on('uncaughtException', (error) => send({ event: 'crash', error: String(error?.stack ?? error) }))
process.on('unhandledRejection', (error) => send({ event: 'crash', error: String(error?.stack ?? error) }))

await load('./procedures.mjs')
send({ event: 'ready', uptime: readFileSync('/proc/uptime', 'utf8').split(' ')[0] })

let rest = ''
const chunk = Buffer.alloc(64 * 1024)
function listen() {
  read(port, chunk, 0, chunk.length, null, (error, size) => {
    // 0 bytes: nobody is connected outside.
    if (error !== null || size === 0) {
      setTimeout(listen, 50)
      return
    }
    rest += chunk.toString('utf8', 0, size)
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '') void handle(JSON.parse(line))
    listen()
  })
}
listen()

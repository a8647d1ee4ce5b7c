// Watches through udev's socket and says what it is told, a line each, until its input ends.
import { linuxDriver, netlinkSource } from '@egpu/driver-linux'

const sysfsRoot = process.argv.at(-1)
const stop = new AbortController()
process.stdin.on('end', () => stop.abort()).resume()
const driver = linuxDriver({ sysfsRoot, eventSource: netlinkSource('udev') })
for await (const event of driver.watch({ signal: stop.signal })) {
  const subject = event.key ?? event.device?.key ?? event.enclosure?.id ?? event.id
  const { stage, verdict } = event.device ?? {}
  console.log(
    [event.type, event.reason, subject, stage, verdict?.conclusion, event.graceful]
      .filter((one) => one !== undefined)
      .join(' | '),
  )
}
await driver.close()

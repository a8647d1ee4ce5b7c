/** Messages as the kernel, udev and udevadm send them, from their properties. */
export type Properties = Readonly<Record<string, string>>

export function kernelDatagram(properties: Properties): Uint8Array {
  return new TextEncoder().encode(`${properties['ACTION']}@${properties['DEVPATH']}\0${pairs(properties)}`)
}

export function udevMessage(properties: Properties): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(pairs(properties))
  const message = new Uint8Array(40 + body.byteLength)
  message.set(new TextEncoder().encode('libudev\0'))
  const view = new DataView(message.buffer)
  view.setUint32(8, 0xfeedcafe)
  view.setUint32(12, 40, true)
  view.setUint32(16, 40, true)
  view.setUint32(20, body.byteLength, true)
  message.set(body, 40)
  return message
}

export function udevadmBlock(properties: Properties): string {
  const heading = `KERNEL[12.345678] ${properties['ACTION']} ${properties['DEVPATH']} (${properties['SUBSYSTEM']})`
  return `${[heading, ...Object.entries(properties).map(([key, value]) => `${key}=${value}`)].join('\n')}\n\n`
}

function pairs(properties: Properties): string {
  return Object.entries(properties)
    .map(([key, value]) => `${key}=${value}\0`)
    .join('')
}

// Run as a process of its own: opens one device through Dawn, gives it memory, and prints what Vulkan says of every
// device before and after. Dawn does not tell which device it opened; the memory does.
import { listPhysicalDevices } from './library.js'

const [url = '', flags = '[]', bytes = '0'] = process.argv.slice(2)
const { create } = await import(url)
const gpu = create(JSON.parse(flags))
const adapter = await gpu.requestAdapter()
const device = await adapter.requestDevice()
const before = listPhysicalDevices()
const buffer = device.createBuffer({ size: Number(bytes), usage: 0x8 })
// Memory that nobody has written to may not exist yet.
const encoder = device.createCommandEncoder()
encoder.clearBuffer(buffer)
device.queue.submit([encoder.finish()])
await device.queue.onSubmittedWorkDone()
const after = listPhysicalDevices()
buffer.destroy()
device.destroy()
await device.lost
process.stdout.write(JSON.stringify({ before, after }))

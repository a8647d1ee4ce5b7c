// Run as a process of its own: prints what Vulkan shows here. A bad driver takes down this process and no other.
import { listPhysicalDevices } from './library.js'

process.stdout.write(JSON.stringify(listPhysicalDevices()))

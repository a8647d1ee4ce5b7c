// Multicasts a uevent datagram: `node send-to-group.mjs <group> <base64>`. Needs CAP_NET_ADMIN.
import koffi from 'koffi'

const [group, body] = process.argv.slice(2)
const datagram = Buffer.from(body, 'base64')
const libc = koffi.load(null)
const fd = libc.func('int socket(int, int, int)')(16, 2, 15)
const address = Buffer.alloc(12)
address.writeUInt16LE(16, 0)
address.writeUInt32LE(Number(group), 8)
const send = libc.func('intptr_t sendto(int, const void *, size_t, int, const void *, uint32_t)')
const sent = Number(send(fd, datagram, datagram.byteLength, 0, address, 12))
if (sent !== datagram.byteLength) throw new Error(`sendto failed with errno ${koffi.errno()}`)

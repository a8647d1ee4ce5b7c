"""Two processes that share GPU memory without PyTorch: `cuda-ipc.py memory|handle`.

`memory` is cuIpcOpenMemHandle, `handle` a file descriptor of cuMemExportToShareableHandle. Prints `ready <exporter>
<importer>`; at each line of input the importer reads the memory and prints `check <bytes>`.
"""
import array, ctypes as c, os, socket, struct, sys

cuda = c.CDLL('libcuda.so.1')
SIZE = c.c_size_t(64 << 20)


def ok(result):
    if result:
        sys.exit(f'CUDA answered {result}')


class Location(c.Structure):
    _fields_ = [('type', c.c_int), ('id', c.c_int)]


class Properties(c.Structure):
    _fields_ = [('type', c.c_int), ('handles', c.c_int), ('at', Location), ('meta', c.c_void_p), ('flags', c.c_uint8 * 8)]


class Access(c.Structure):
    _fields_ = [('at', Location), ('flags', c.c_int)]


class IpcHandle(c.Structure):
    _fields_ = [('bytes', c.c_char * 64)]


def begin():
    ok(cuda.cuInit(0))
    context = c.c_void_p()
    ok(cuda.cuDevicePrimaryCtxRetain(c.byref(context), c.c_int(0)))
    ok(cuda.cuCtxSetCurrent(context))


def mapped(handle):
    address = c.c_uint64()
    ok(cuda.cuMemAddressReserve(c.byref(address), SIZE, c.c_size_t(0), c.c_uint64(0), c.c_uint64(0)))
    ok(cuda.cuMemMap(address, SIZE, c.c_size_t(0), handle, c.c_uint64(0)))
    ok(cuda.cuMemSetAccess(address, SIZE, c.byref(Access(Location(1, 0), 3)), c.c_size_t(1)))
    return address


def export(kind, peer):
    begin()
    address = c.c_uint64()
    if kind == 'memory':
        ok(cuda.cuMemAlloc_v2(c.byref(address), SIZE))
        handle = IpcHandle()
        ok(cuda.cuIpcGetMemHandle(c.byref(handle), address))
        peer.sendall(bytes(handle))
    else:
        handle, file = c.c_uint64(), c.c_int()
        ok(cuda.cuMemCreate(c.byref(handle), SIZE, c.byref(Properties(1, 1, Location(1, 0))), c.c_uint64(0)))
        address = mapped(handle)
        ok(cuda.cuMemExportToShareableHandle(c.byref(file), handle, c.c_int(1), c.c_uint64(0)))
        peer.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file.value]))])
        os.close(file.value)
    ok(cuda.cuMemsetD32_v2(address, c.c_uint(0x5555AAAA), c.c_size_t(SIZE.value // 4)))
    ok(cuda.cuCtxSynchronize())
    peer.sendall(b'!')
    peer.recv(1)


def use(kind, peer, exporter):
    begin()
    address = c.c_uint64()
    if kind == 'memory':
        handle = IpcHandle.from_buffer_copy(peer.recv(64))
        ok(cuda.cuIpcOpenMemHandle_v2(c.byref(address), handle, c.c_uint(1)))
    else:
        _, extra, _, _ = peer.recvmsg(1, 64)
        (file,) = struct.unpack('i', extra[0][2][:4])
        handle = c.c_uint64()
        ok(cuda.cuMemImportFromShareableHandle(c.byref(handle), c.c_void_p(file), c.c_int(1)))
        os.close(file)
        address = mapped(handle)
    peer.recv(1)
    print('ready', exporter, os.getpid(), flush=True)
    for _ in sys.stdin:
        data = c.create_string_buffer(8)
        ok(cuda.cuMemcpyDtoH_v2(data, c.c_uint64(address.value + SIZE.value - 8), c.c_size_t(8)))
        print('check', data.raw.hex(), flush=True)


near, far = socket.socketpair()
child = os.fork()
if child == 0:
    near.close()
    export(sys.argv[1], far)
    os._exit(0)
far.close()
use(sys.argv[1], near, child)

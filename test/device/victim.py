"""A PyTorch program that knows nothing of checkpoints.

victim.py <GiB of ballast> <steps> [pair|ipc|uvm]: `pair` starts a second CUDA process as its child, `ipc` shares GPU
memory with one, `uvm` allocates 2 MiB of managed memory. SIGTERM has it end after the step it is at.
"""
import ctypes, os, signal, subprocess, sys, time
import torch

def hold(queue):
    """The other end of shared memory."""
    tensor = queue.get()
    tensor.add_(0)
    time.sleep(3600)


def on_term(*_):
    global stop
    stop = True


stop = False


def main():
    gib, steps = float(sys.argv[1]), int(sys.argv[2])
    traits = sys.argv[3:]
    signal.signal(signal.SIGTERM, on_term)
    torch.manual_seed(0)
    device = torch.device('cuda:0')
    x = torch.randn(2048, 2048, device=device)
    w = torch.randn(2048, 2048, device=device) / 45.0
    ballast = torch.full((int(gib * (1 << 28)),), 1.5, device=device)
    child = None
    if 'pair' in traits:
        child = subprocess.Popen([sys.executable, __file__, '0.5', str(steps)], stdout=subprocess.DEVNULL)
        time.sleep(8)
    if 'uvm' in traits:
        cudart = ctypes.CDLL('libcudart.so.13') if os.path.exists('/usr/local/cuda/lib64/libcudart.so.13') else None
        library = cudart or ctypes.CDLL('libcuda.so.1')
        pointer = ctypes.c_uint64()
        if cudart:
            result = cudart.cudaMallocManaged(ctypes.byref(pointer), ctypes.c_size_t(2 << 20), ctypes.c_uint(1))
        else:
            result = library.cuMemAllocManaged(ctypes.byref(pointer), ctypes.c_size_t(2 << 20), ctypes.c_uint(1))
        print('managed', result, flush=True)
    if 'ipc' in traits:
        # A handle alone shares nothing yet: somebody has to open it.
        import torch.multiprocessing as mp

        context = mp.get_context('spawn')
        queue = context.Queue()
        shared = torch.ones(1 << 20, device=device)
        child = context.Process(target=hold, args=(queue,), daemon=True)
        child.start()
        queue.put(shared)
        time.sleep(10)
    print('ready', os.getpid(), flush=True)
    step = 0
    while (step < steps if steps else not stop):
        x = torch.tanh(x @ w)
        print('step', step, repr(float(x.double().sum())), flush=True)
        step += 1
        time.sleep(float(os.environ.get('VICTIM_SLEEP', '0.02')))
        if stop:
            break
    print('ballast', repr(float(ballast[::1000003].double().sum())), flush=True)
    if child is not None:
        child.terminate()


if __name__ == '__main__':
    main()

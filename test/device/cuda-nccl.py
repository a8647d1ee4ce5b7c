"""Two ranks on two GPUs that sum with NCCL all the time. Prints `step <n> <sum>` of rank 0."""
import os, subprocess, sys, time

if 'RANK' not in os.environ:
    environment = {**os.environ, 'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29511'}
    ranks = [subprocess.Popen([sys.executable, __file__], env={**environment, 'RANK': str(rank)}) for rank in (0, 1)]
    sys.exit(ranks[0].wait())

import torch
import torch.distributed as distributed

rank = int(os.environ['RANK'])
torch.cuda.set_device(rank)
distributed.init_process_group('nccl')
x = torch.full((1 << 20,), 1.0 + rank, device='cuda')
step = 0
while True:
    distributed.all_reduce(x)
    x /= 2
    torch.cuda.synchronize()
    if rank == 0 and step % 10 == 0:
        print('step', step, float(x.double().sum()), flush=True)
    step += 1
    time.sleep(0.05)

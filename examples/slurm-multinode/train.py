"""One all-reduce over all ranks: enough to see that NCCL works."""

import os

import torch
import torch.distributed as dist

rank, local = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_LOCALID"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
if rank == 0:
    print(f"{int(total.item())} ranks")
dist.destroy_process_group()

"""Data-parallel linear regression with PyTorch: each rank learns from points of its own, gradients
are averaged over all ranks, and the loss falls to zero.

Started by torchrun, which sets the rank of each process. STEPS steps of STEP_S seconds or more.
"""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FEATURES = 8
POINTS = 64  # per rank and step


def main() -> None:
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    truth = torch.arange(float(FEATURES)).unsqueeze(1)
    for step in range(int(os.environ.get("STEPS", "100"))):
        points = torch.randn(POINTS, FEATURES)
        loss = torch.nn.functional.mse_loss(model(points), points @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} of {world} step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(float(os.environ.get("STEP_S", "0")))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

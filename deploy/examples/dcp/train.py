"""A training script that saves with PyTorch's distributed checkpoint (DCP), on any number of ranks.

    torchrun --nproc-per-node 8 train.py

Under the broker a rank is a node, and the command of the intent starts the node's processes. What
the launcher fills in has braces, for no shell reads the command:

    torchrun --nnodes ${WORLD_SIZE} --node-rank ${RANK} --nproc-per-node 8
        --master-addr ${MASTER_ADDR} --master-port ${MASTER_PORT} train.py

To see it move, over the embedded regions of a brokerd on this machine (5 GB for torch):

    export CHECKOUT=$PWD TORCH_ENV=$HOME/torch-env    # in the folder that README.md is in
    python3 -m venv $TORCH_ENV && $TORCH_ENV/bin/pip install torch numpy
    cd deploy/examples/dcp
    broker submit intent.yaml
    broker status dcp                                 # until it has saved step 50; in which region?
    broker local preempt us-east4 --flavor h100-spot --notice 30s
    broker timeline dcp                               # drained, acknowledged, resumed elsewhere
    broker checkpoints dcp

Each rank writes its shards into a local directory of its own, and the library carries them into
one `step-<n>` directory. DCP's `.metadata`, which rank 0 holds, is put there last and marks the
checkpoint as complete, so what is loaded is a DCP directory like any other, and a gang of another
size can load it too. The intent names the format `pytorch-dcp`.
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

from broker.sdk import training


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="as a real model takes")
    options = parser.parse_args()

    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        with training.Job.from_env() as job:
            return train(job, device, options)
    finally:
        dist.destroy_process_group()


def train(job: training.Job, device: torch.device, options: argparse.Namespace) -> int:
    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters())
    start = load(job, model, optimizer)

    for step in range(start + 1, options.steps + 1):
        draw = torch.Generator().manual_seed(step * job.grant.world_size + job.grant.rank)
        x = torch.randn(128, 64, generator=draw).to(device)
        loss = nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        job.report(step, loss=loss.item(), samples=step * 128 * job.grant.world_size)
        time.sleep(options.step_seconds)

        # Ranks hear a drain at different moments; they leave at the same step.
        hears_drain = torch.tensor(float(job.drain() is not None), device=device)
        dist.all_reduce(hears_drain, op=dist.ReduceOp.MAX)
        is_drained = bool(hears_drain.item())
        if is_drained or step % options.save_every == 0 or step == options.steps:
            save(job, step, model, optimizer)
        if is_drained:
            job.acknowledge(step)
            job.stand_by()
            return training.EXIT_DRAINED
    return 0


def load(job: training.Job, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the checkpoint that the grant names, if any; return its step, or 0."""
    resume_dir = job.resume_dir()
    if resume_dir is None:
        return 0
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, storage_reader=dcp.FileSystemReader(resume_dir))
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    return training.step_of(resume_dir)


def save(job: training.Job, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Save the shards of this rank; returns when they are on the local disk."""
    weights, moments = get_state_dict(model, optimizer)
    with job.saving(step) as part:
        state = {"model": weights, "optimizer": moments}
        dcp.save(state, storage_writer=dcp.FileSystemWriter(part))


if __name__ == "__main__":
    sys.exit(main())

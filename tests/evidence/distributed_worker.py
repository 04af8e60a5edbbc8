"""One process of a group: the evidence and both gradients of its shard, written to a file by the first."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

import covary
from covary.curvature import decompositions
from covary.distributed import all_sum_each, divided
from covary.errors import CovaryError, NotPositiveDefiniteError

COSTS = [1.0, 5.0, 3.0, 3.0]


def model(dtype: torch.dtype):
    generator = torch.Generator().manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)).to(dtype)
    with torch.no_grad():
        for parameter in inner.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=dtype))
    network = covary.Averaged(inner, covary.augment.Affine2d(initial_width=0.2).to(dtype), 4)
    x = torch.randn(9, 1, 4, 4, generator=generator, dtype=torch.float64).to(dtype)
    y = torch.randint(0, 3, (9,), generator=generator)
    likelihood = covary.Categorical(1.2, learn_temperature=True)
    return network, likelihood, covary.Prior(network), (x, y, torch.arange(9))


def results(rank: int, size: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Unequal shards: every `size`-th datum from `rank` on."""
    network, likelihood, prior, data = model(dtype)
    shard = tuple(tensor[rank::size] for tensor in data)
    found: dict[str, torch.Tensor] = {}
    for curvature in ("kron", "kron-traced", "full", "diag"):
        terms = covary.log_evidence(covary.Model(network, likelihood, prior), shard, curvature, mode_correction=True)
        found |= {f"{curvature} evidence": terms.log_evidence, f"{curvature} norm": terms.gradient_norm}
        found[f"{curvature} count"] = torch.tensor(terms.num_data)
        for name, function in (("direct", covary.hypergrad.direct), ("two_pass", covary.hypergrad.two_pass)):
            gradient = function(covary.Model(network, likelihood, prior), shard, curvature)
            found |= {f"{curvature} {name} {key}": value for key, value in gradient.items()}
    probed = covary.hypergrad.two_pass(covary.Model(network, likelihood, prior), shard, covary.Curvature(probes=2))
    return found | {f"probed {key}": value for key, value in probed.items()}


def shared(rank: int) -> dict[str, torch.Tensor]:
    """Which process has computed each of several items, in the order of memory that it has left; sums of several."""

    def compute(items: list[int]) -> list[tuple[torch.Tensor, ...]]:
        return [(torch.tensor([rank, item]), torch.arange(6.0).view(2, 3).T + item) for item in items]

    found = divided(compute, COSTS, torch.device("cpu"))
    leaf = torch.ones(2, requires_grad=True)
    sums = all_sum_each([torch.ones(2, 1), torch.tensor(rank), torch.full((3,), 2.0), 3 * leaf])
    (derivative,) = torch.autograd.grad(sums[3].sum(), leaf)
    strides = torch.tensor([part.stride() for _, part in found])
    values = {"who": torch.stack([who for who, _ in found]), "parts": torch.stack([part for _, part in found])}
    named = dict(zip("abcd", (entry.detach() for entry in sums), strict=True))
    return {**named, **values, "strides": strides, "derivative": derivative}


def error_of_the_last(rank: int, size: int) -> str:
    """The message of an error that the last process alone has found."""

    def compute(items: list[int]) -> list[tuple[torch.Tensor, ...]]:
        if rank == size - 1:
            raise NotPositiveDefiniteError(f"from process {rank}")
        return [(torch.zeros(1),) for _ in items]

    try:
        divided(compute, COSTS, torch.device("cpu"))
    except CovaryError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    rank, size, rendezvous, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    found = {}
    for name in ("float64", "float32"):
        torch.set_default_dtype(getattr(torch, name))
        found[name] = results(rank, size, getattr(torch, name))
    decompositions.PARALLEL_SIZE = 2
    found["divided"] = results(rank, size, torch.float32)
    found["shared"] = shared(rank)
    found["error"] = error_of_the_last(rank, size)
    if rank == 0:
        torch.save(found, out)
    dist.barrier()  # no process closes the group while another still uses it
    dist.destroy_process_group()
    os._exit(0)  # torch's own threads may abort a process that ends while they run

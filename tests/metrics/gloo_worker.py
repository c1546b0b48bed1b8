"""One of two processes that synchronise their metrics: RANK STORE. Prints the values it sees as JSON."""

import json
import sys

import torch

from nearwise.metrics import ClosestIsPositiveAccuracy, MedianDistances

E = torch.tensor([[0.0, 0], [1, 0], [3, 0], [10, 0], [11, 0]])
L = torch.tensor([0, 0, 1, 1, 2])
BATCHES = [([0, 1, 2, 3, 4], [1, 2, 3]), ([2, 3],)]


def value(metric):
    result = metric.compute()
    return {k: v.item() for k, v in result.items()} if isinstance(result, dict) else result.item()


def main(rank, store):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    found = []
    for kind, size in [(ClosestIsPositiveAccuracy, None), (MedianDistances, None), (ClosestIsPositiveAccuracy, 3)]:
        metric = kind(cross_batch_memory_size=size)
        for rows in BATCHES[rank]:
            metric.update(E[rows], L[rows])
        memory = len(metric.cross_batch_memory)
        found.append(value(metric))
        assert len(metric.cross_batch_memory) == memory
        metric.update(E, L)
        found.append(value(metric))
    mixed, late = MedianDistances(), MedianDistances()
    mixed.update(E.double() / 3 if rank == 0 else E, L)
    if rank == 0:
        late.update(E.double() / 3, L)
    found += [value(mixed), value(late)]
    torch.distributed.destroy_process_group()
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

"""Ranks as threads of this process, connected by Gloo: for tests that need many ranks."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from graph_quant.host.collectives.backend import HostHccl
from graph_quant.host.collectives.groups import group_finder
from graph_quant.reference.collective import process_group
from torch.distributed import HashStore

Run = Callable[[Callable[[int, str], Any]], list[Any]]


@contextmanager
def ranks(number: int) -> Iterator[Run]:
    """How a function of a rank and the name of its group is run by every rank, to a list of what each returns."""
    store, before = HashStore(), process_group._resolvers[:]

    def join(rank: int) -> HostHccl:
        return HostHccl(store, rank, number, timedelta(seconds=60), f"thread_{rank}")

    with ThreadPoolExecutor(number) as pool:
        backends = dict(enumerate(pool.map(join, range(number))))
        process_group.set_group_resolver(group_finder({str(rank): backend for rank, backend in backends.items()}))
        try:
            yield lambda function: list(
                pool.map(lambda rank: function(rank, backends[rank].get_hccl_comm_name()), range(number))
            )
        finally:
            process_group._resolvers[:] = before

"""The store of ranks that all run on this machine listens on the loopback interface only."""

from __future__ import annotations

import ipaddress
import socket
import sys
from typing import Any

_BACKLOG = 1024  # connections that wait to be accepted


def listen_on_loopback() -> None:
    """Bind the server of an `env://` or `tcp://` store to its own address, if that is a loopback address.

    PyTorch's server listens on all interfaces: others on the network could read and write the keys of the ranks.
    """
    module = vars(sys.modules["torch.distributed.rendezvous"])  # the package has a function of the same name
    create = module["TCPStore"]

    def create_store(host_name: str, port: int, *args: Any, is_master: bool = False, **kwargs: Any) -> Any:
        listening = _listen(host_name, port) if is_master and not args else None
        if listening is None:
            return create(host_name, port, *args, is_master=is_master, **kwargs)
        return create(host_name, port, is_master=True, master_listen_fd=listening.detach(), **kwargs)

    module["TCPStore"] = create_store


def _listen(host: str, port: int) -> socket.socket | None:
    """Return a socket that listens on a loopback address; None if the host has another, or the port is in use."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        if not all(ipaddress.ip_address(address[4][0]).is_loopback for address in addresses):
            return None
        return socket.create_server(addresses[0][4][:2], family=addresses[0][0], backlog=_BACKLOG)
    except (OSError, ValueError):
        return None  # PyTorch reports it, or shares the store that this process has there

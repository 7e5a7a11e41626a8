"""Every test runs offline, on one thread, from the same seed."""

import os
import socket

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from transformers import set_seed

torch.set_num_threads(1)
_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex


def _check_loopback(address) -> None:
    host = address[0] if isinstance(address, tuple) else None
    if host is not None and host not in ("127.0.0.1", "::1", "localhost"):
        raise RuntimeError(f"A test tried to reach {host}: tests run offline and may only use loopback.")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Refuse every connection that leaves this machine."""

    def connect(self, address):
        _check_loopback(address)
        return _connect(self, address)

    def connect_ex(self, address):
        _check_loopback(address)
        return _connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex)


@pytest.fixture(autouse=True)
def seed():
    """Start each test from the same random numbers."""
    set_seed(0)

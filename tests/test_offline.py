"""The guard that keeps the tests offline can itself fail."""

import socket

import pytest


def test_a_connection_beyond_loopback_is_refused():
    with pytest.raises(RuntimeError, match="tests run offline"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)


def test_loopback_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            assert client.getpeername() == server.getsockname()

# SPDX-License-Identifier: Apache-2.0
"""Sockets are made for permitted addresses only."""

from __future__ import annotations

import socket
from ipaddress import ip_network
from typing import Any

import pytest

from watcher_sync.extensions.webhooks.guard import AddressRefused, GuardedSockets


def info(family: int, *place: Any) -> Any:
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (info(socket.AF_INET, "127.0.0.1", 80), "loopback"),
        (info(socket.AF_INET, "169.254.169.254", 80), "link-local"),
        (info(socket.AF_INET, "2130706433", 80), "not an address"),
        (info(socket.AF_INET6, "::ffff:127.0.0.1", 80, 0, 0), "loopback"),
        (info(socket.AF_INET6, "64:ff9b::7f00:1", 80, 0, 0), "NAT64"),
        (info(socket.AF_INET6, "2606:4700::1111", 80, 0, 3), "scope"),
        (info(socket.AF_INET6, "fe80::1%eth0", 80, 0, 0), "scope"),
        (info(socket.AF_UNIX, "/run/socket"), "neither IPv4 nor IPv6"),
    ],
)
def test_no_socket_is_made_for_a_refused_address(address: Any, reason: str) -> None:
    with pytest.raises(AddressRefused, match=reason) as refusal:
        GuardedSockets(lambda: [])(address)

    assert address[4][0] not in str(refusal.value)


def test_the_networks_are_those_of_the_moment() -> None:
    networks = [ip_network("127.0.0.0/8")]
    sockets = GuardedSockets(lambda: networks)
    address = info(socket.AF_INET, "127.0.0.1", 80)

    sockets(address).close()
    networks.clear()

    with pytest.raises(AddressRefused):
        sockets(address)


def test_a_socket_for_a_public_address_has_its_family() -> None:
    with GuardedSockets(lambda: [])(info(socket.AF_INET, "8.8.8.8", 443)) as made:
        assert (made.family, made.type) == (socket.AF_INET, socket.SOCK_STREAM)

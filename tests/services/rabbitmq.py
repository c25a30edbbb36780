# SPDX-License-Identifier: Apache-2.0
"""Private RabbitMQ nodes for tests that break them, alone or in a cluster.

Beside what every private server can do, a node raises its alarms, closes connections and changes users, permissions
and virtual hosts::

    with private_rabbitmq_node(consumer_timeout=5) as node:
        with node.memory_alarm():
            ...                      # publishers are blocked

A node's memory is bounded by its high watermark. Each ``rabbitmqctl`` takes a second or two, so tests that leave
a node as they found it share one. Standard library only.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final
from urllib.parse import quote

from tests.services.servers import RabbitMQ, ServiceBroken, program
from watcher_sync.testing.deadlines import deadline

MEMORY_LIMIT: Final = 700 * 1024 * 1024
"""Bytes at which a node raises its memory alarm."""

TICK_SECONDS: Final = 0.5
"""How often a node compares unacked messages with the consumer timeout; RabbitMQ's own default is a minute."""

_DISK_LIMIT: Final = 10_000_000
_CTL_TIMEOUT_SECONDS: Final = 120.0


class RabbitMQNode(RabbitMQ):
    """One node.

    :param consumer_timeout: seconds after which the broker closes a channel that does not ack; None: its default.
    :param beside: a node of the same machine whose cluster this one may join.
    """

    def __init__(self, *, consumer_timeout: float | None = None, beside: RabbitMQNode | None = None) -> None:
        super().__init__()
        self._beside = beside
        with (self.home / "rabbitmq.conf").open("a") as conf:
            conf.write(
                f"vm_memory_high_watermark.absolute = {MEMORY_LIMIT}\ndisk_free_limit.absolute = {_DISK_LIMIT}\n"
            )
            conf.write("cluster_partition_handling = ignore\n")
            if consumer_timeout is not None:
                conf.write(f"consumer_timeout = {round(consumer_timeout * 1000)}\n")
        tick = round(TICK_SECONDS * 1000)
        (self.home / "advanced.config").write_text(f"[{{rabbit, [{{channel_tick_interval, {tick}}}]}}].\n")
        if beside is not None:
            self._mapper_port = beside._mapper_port
            cookie = self.home / ".erlang.cookie"
            cookie.chmod(0o600)
            cookie.write_text((beside.home / ".erlang.cookie").read_text())
            cookie.chmod(0o400)

    @property
    def name(self) -> str:
        """The node's name in its cluster."""
        return self._environment()["RABBITMQ_NODENAME"]

    @property
    def host(self) -> str:
        """``name:port``."""
        return f"127.0.0.1:{self.port}"

    def url_of(self, *, user: str = "guest", password: str | None = None, vhost: str = "/") -> str:
        """The address for this user and virtual host, as oslo.messaging has it."""
        at = f"{quote(user, safe='')}:{quote(password if password is not None else user, safe='')}"
        return f"rabbit://{at}@{self.host}/{'' if vhost == '/' else quote(vhost, safe='')}"

    def ctl(self, *arguments: str) -> str:
        """What ``rabbitmqctl`` prints. :raises ServiceBroken: when it fails."""
        command = [program("rabbitmqctl", "/usr/lib/rabbitmq/bin"), "--quiet", "--node", self.name, *arguments]
        with self.log.open("ab") as log:
            process = self._popen(command, log, stdout=subprocess.PIPE)
        try:
            output, _ = process.communicate(timeout=deadline(_CTL_TIMEOUT_SECONDS))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServiceBroken(f"rabbitmqctl {arguments[0]} does not end") from None
        if process.returncode != 0:
            raise ServiceBroken(f"rabbitmqctl {arguments[0]} failed:{self._log_tail()}")
        return output.decode()

    # Alarms

    @contextmanager
    def memory_alarm(self) -> Iterator[None]:
        """The node has too little memory for as long as this lasts, and blocks publishers."""
        self.ctl("set_vm_memory_high_watermark", "absolute", "1")
        self._wait_for_alarm("memory", raised=True)
        try:
            yield
        finally:
            self.ctl("set_vm_memory_high_watermark", "absolute", str(MEMORY_LIMIT))
            self._wait_for_alarm("memory", raised=False)

    @contextmanager
    def disk_alarm(self) -> Iterator[None]:
        """The node has too little room on its disk for as long as this lasts, and blocks publishers."""
        self.ctl("set_disk_free_limit", str(10**18))
        self._wait_for_alarm("disk", raised=True)
        try:
            yield
        finally:
            self.ctl("set_disk_free_limit", str(_DISK_LIMIT))
            self._wait_for_alarm("disk", raised=False)

    def _wait_for_alarm(self, resource: str, *, raised: bool) -> None:
        until = (
            "Wait = fun F(0) -> timeout; F(N) -> "
            f"case lists:any(fun({{{{resource_limit, R, _}}, _}}) -> R =:= {resource}; (_) -> false end,"
            f" rabbit_alarm:get_alarms()) of {str(raised).lower()} -> done; _ -> timer:sleep(50), F(N - 1) end end,"
            " Wait(1000)."
        )
        if "done" not in self.ctl("eval", until):
            raise ServiceBroken(f"the {resource} alarm did not {'come' if raised else 'go'}")

    # Users, permissions, virtual hosts, connections

    def add_user(self, user: str, password: str | None = None, *, vhost: str = "/") -> None:
        """A user with every permission on this virtual host; the password is the name, unless given."""
        self.ctl("add_user", user, password or user)
        self.permit(user, vhost=vhost)

    def delete_user(self, user: str) -> None:
        self.ctl("delete_user", user)

    def set_password(self, user: str, password: str) -> None:
        self.ctl("change_password", user, password)

    def permit(
        self, user: str, *, vhost: str = "/", configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Patterns of the names that the user may configure, write and read."""
        self.ctl("set_permissions", "--vhost", vhost, user, configure, write, read)

    def add_vhost(self, vhost: str, *users: str) -> None:
        """A virtual host on which these users may do everything."""
        self.ctl("add_vhost", vhost)
        for user in users or ("guest",):
            self.permit(user, vhost=vhost)

    def delete_vhost(self, vhost: str) -> None:
        self.ctl("delete_vhost", vhost)

    def close_connections(self, reason: str = "closed by the operator") -> None:
        """Close the connections of all users; each client learns the reason."""
        self.ctl("close_all_connections", reason)

    def consumers(self, queue: str, *, vhost: str = "/") -> list[int]:
        """The prefetch limits of the consumers of a queue, one for each of them."""
        lines = self.ctl("list_consumers", "--no-table-headers", "--vhost", vhost, "queue_name", "prefetch_count")
        found = (line.split() for line in lines.splitlines())
        return [int(words[1]) for words in found if len(words) == 2 and words[0] == queue]

    # A cluster

    def join(self, other: RabbitMQNode) -> None:
        """Become a node of the other's cluster; what this one had is lost."""
        self.ctl("stop_app")
        self.ctl("join_cluster", other.name)
        self.ctl("start_app")

    def server_log(self) -> str:
        """What the node logged."""
        return "".join(path.read_text(errors="replace") for path in sorted((self.home / "log").glob("*.log")))

    def logged(self, pattern: str) -> int:
        """How many lines of the node's log match."""
        return sum(re.search(pattern, line) is not None for line in self.server_log().splitlines())

    def remove(self) -> None:
        if self._beside is not None:
            self._mapper = None  # the other node's
        super().remove()

    def _start_mapper(self) -> None:
        if self._beside is None:
            super()._start_mapper()

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.home / "advanced.config")}


def url_of_cluster(nodes: Sequence[RabbitMQNode]) -> str:
    """The address with each node as a host, in this order."""
    return f"rabbit://{','.join(f'guest:guest@{node.host}' for node in nodes)}/"


@contextmanager
def private_rabbitmq_node(*, consumer_timeout: float | None = None) -> Iterator[RabbitMQNode]:
    """A RabbitMQ to break."""
    node = RabbitMQNode(consumer_timeout=consumer_timeout)
    try:
        yield node.create()
    finally:
        node.remove()


@contextmanager
def private_rabbitmq_cluster(count: int = 2) -> Iterator[list[RabbitMQNode]]:
    """So many nodes of one cluster; a node that is killed and started again is in it as before."""
    with ExitStack() as stack:
        nodes: list[RabbitMQNode] = []
        for _ in range(count):
            node = RabbitMQNode(beside=nodes[0] if nodes else None)
            stack.callback(node.remove)
            nodes.append(node.create())
        for node in nodes[1:]:
            node.join(nodes[0])
        yield nodes

# SPDX-License-Identifier: Apache-2.0
"""Private RabbitMQ nodes for tests that break them, alone or in a cluster.

Beside what every private server can do, a node raises its alarms, closes connections and changes users, permissions
and virtual hosts::

    with private_rabbitmq_node(consumer_timeout=5) as node:
        with node.memory_alarm():
            ...                      # publishers are blocked

A node's memory is bounded by its high watermark. Its start takes four seconds of processor time, so tests that leave a
node as they found it share one. A node is called with ``erl_call``, which starts no virtual machine as ``rabbitmqctl``
does. Standard library only.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final
from urllib.parse import quote

from tests.services.servers import RabbitMQ, ServiceBroken, program
from watcher_sync.testing.deadlines import Deadline, deadline

MEMORY_LIMIT: Final = 700 * 1024 * 1024
"""Bytes at which a node raises its memory alarm."""

TICK_SECONDS: Final = 0.5
"""How often a node compares unacked messages with the consumer timeout; RabbitMQ's own default is a minute."""

_DISK_LIMIT: Final = 10_000_000
_CTL_TIMEOUT_SECONDS: Final = 120.0
_ALARM_SECONDS: Final = 50.0

_ACTING_USER: Final = "tests"
"""Who makes a change, in RabbitMQ's audit events."""

_IN_BRACES: Final = re.compile(r"\{(\d+)\}")


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
        return self._output(command, f"rabbitmqctl {arguments[0]}")

    def evaluate(self, expression: str) -> str:
        """The value of an Erlang expression on the node, as Erlang writes it.

        :raises ServiceBroken: when it fails.
        """
        name, _, host = self.name.partition("@")
        command = [
            program("erl_call", "/usr/lib/erlang/erts-*/bin"), "-timeout", str(round(deadline(_CTL_TIMEOUT_SECONDS))),
            "-c", (self.home / ".erlang.cookie").read_text(), "-h", f"{name}-{secrets.token_hex(4)}",
            "-name", f"{name}@{host}", "-e",
        ]  # fmt: skip
        answer = self._output(command, "erl_call", f"{expression}.\n")
        value = re.fullmatch(r"\{ok, (.*)\}\s*", answer, re.DOTALL)
        if value is None:
            raise ServiceBroken(f"{expression} failed: {answer}")
        return value[1]

    def _output(self, command: Sequence[str], what: str, given: str = "") -> str:
        with self.log.open("ab") as log:
            process = self._popen(command, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            output, _ = process.communicate(given.encode(), timeout=deadline(_CTL_TIMEOUT_SECONDS))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServiceBroken(f"{what} does not end") from None
        if process.returncode != 0:
            raise ServiceBroken(f"{what} failed:{self._log_tail()}")
        return output.decode()

    def _do(self, expression: str) -> None:
        """Evaluate what has to answer ok."""
        if (answer := self.evaluate(expression)) != "ok":
            raise ServiceBroken(f"{expression} is {answer}")

    # Alarms

    @contextmanager
    def memory_alarm(self) -> Iterator[None]:
        """The node has too little memory for as long as this lasts, and blocks publishers."""
        self._do("vm_memory_monitor:set_vm_memory_high_watermark({absolute, 1})")
        self._wait_for_alarm("memory", raised=True)
        try:
            yield
        finally:
            self._do(f"vm_memory_monitor:set_vm_memory_high_watermark({{absolute, {MEMORY_LIMIT}}})")
            self._wait_for_alarm("memory", raised=False)

    @contextmanager
    def disk_alarm(self) -> Iterator[None]:
        """The node has too little room on its disk for as long as this lasts, and blocks publishers."""
        self._do(f"rabbit_disk_monitor:set_disk_free_limit({10**18})")
        self._wait_for_alarm("disk", raised=True)
        try:
            yield
        finally:
            self._do(f"rabbit_disk_monitor:set_disk_free_limit({_DISK_LIMIT})")
            self._wait_for_alarm("disk", raised=False)

    def alarms(self) -> str:
        """The alarms that are raised, as Erlang writes them; ``[]`` for none."""
        return self.evaluate("rabbit_alarm:get_alarms()")

    def _wait_for_alarm(self, resource: str, *, raised: bool) -> None:
        limit = Deadline(_ALARM_SECONDS)
        while (f"resource_limit, {resource}," in self.alarms()) != raised:
            if limit.is_over:
                raise ServiceBroken(f"the {resource} alarm did not {'come' if raised else 'go'}")
            time.sleep(0.05)

    # Users, permissions, virtual hosts, connections

    def add_user(self, user: str, password: str | None = None, *, vhost: str = "/") -> None:
        """A user with every permission on this virtual host; the password is the name, unless given."""
        self._do(f"rabbit_auth_backend_internal:add_user({_binaries(user, password or user, _ACTING_USER)})")
        self.permit(user, vhost=vhost)

    def delete_user(self, user: str) -> None:
        self._do(f"rabbit_auth_backend_internal:delete_user({_binaries(user, _ACTING_USER)})")

    def set_password(self, user: str, password: str) -> None:
        self._do(f"rabbit_auth_backend_internal:change_password({_binaries(user, password, _ACTING_USER)})")

    def permit(
        self, user: str, *, vhost: str = "/", configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Patterns of the names that the user may configure, write and read."""
        arguments = _binaries(user, vhost, configure, write, read, _ACTING_USER)
        self._do(f"rabbit_auth_backend_internal:set_permissions({arguments})")

    def add_vhost(self, vhost: str, *users: str) -> None:
        """A virtual host on which these users may do everything."""
        self._do(f"rabbit_vhost:add({_binaries(vhost, _ACTING_USER)})")
        for user in users or ("guest",):
            self.permit(user, vhost=vhost)

    def delete_vhost(self, vhost: str) -> None:
        self._do(f"rabbit_vhost:delete({_binaries(vhost, _ACTING_USER)})")

    def close_connections(self, reason: str = "closed by the operator") -> None:
        """Close the connections of all users; each client learns the reason."""
        self._do(f'rabbit_networking:close_connections(rabbit_networking:connections(), "{reason}")')

    def consumers(self, queue: str, *, vhost: str = "/") -> list[int]:
        """The prefetch limits of the consumers of a queue, one for each of them."""
        found = self.evaluate(
            f"[{{Limit}} || Consumer <- rabbit_amqqueue:consumers_all({_binaries(vhost)}),"
            f" {{queue_name, {{resource, _, _, {_binaries(queue)}}}}} <- Consumer,"
            " {prefetch_count, Limit} <- Consumer]"
        )
        return [int(limit) for limit in _IN_BRACES.findall(found)]

    def messages(self, queue: str) -> int:
        """How many messages the queue has, with those that a consumer holds.

        :raises ServiceBroken: there is no such queue.
        """
        found = self.evaluate(
            f"[{{Count}} || Queue <- rabbit_amqqueue:list({_binaries('/')}),"
            f" {{resource, _, _, {_binaries(queue)}}} <- [amqqueue:get_name(Queue)],"
            " {messages, Count} <- rabbit_amqqueue:info(Queue, [messages])]"
        )
        if (count := _IN_BRACES.search(found)) is None:
            raise ServiceBroken(f"there is no queue {queue}")
        return int(count[1])

    # A cluster

    def join(self, other: RabbitMQNode) -> None:
        """Become a node of the other's cluster; what this one had is lost."""
        self._do("rabbit:stop()")
        self.ctl("join_cluster", other.name)
        self._do("rabbit:start()")

    @contextmanager
    def out_of_service(self) -> Iterator[None]:
        """RabbitMQ is stopped for as long as this lasts. The virtual machine goes on, so the start costs a tenth."""
        self._do("rabbit:stop()")
        try:
            yield
        finally:
            self._do("rabbit:start()")

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


def _binaries(*values: str) -> str:
    """Arguments of an Erlang call."""
    return ", ".join(f'<<"{value}">>' for value in values)


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
def private_rabbitmq_cluster(count: int = 2, *, first: RabbitMQNode | None = None) -> Iterator[list[RabbitMQNode]]:
    """So many nodes of one cluster; a node that is killed and started again is in it as before.

    :param first: a node that runs, which the others join; None: it is made, too.
    """
    with ExitStack() as stack:
        nodes = [stack.enter_context(private_rabbitmq_node()) if first is None else first]
        for _ in range(count - 1):
            node = RabbitMQNode(beside=nodes[0])
            stack.callback(node.remove)
            nodes.append(node.create())
            node.join(nodes[0])
        yield nodes

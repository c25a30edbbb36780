# SPDX-License-Identifier: Apache-2.0
"""A server that refuses in alternating ways costs one line of the log for each way, not one for each attempt."""

from __future__ import annotations

import collections
import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from tests.services.servers import free_port
from tests.waiting import Deadline, deadline
from watcher_sync.conf import engine as engine_options
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.dcm.source.source import NatsJetStreamSource
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import Source

pytestmark = pytest.mark.slow

_RESET = struct.pack("ii", 1, 0)


class Refusing:
    """A server that ends each connection, by turns with a reset and in order."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.attempts = 0
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            for number in itertools.count():
                connection, _ = self._server.accept()
                if number % 2:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                connection.close()
                self.attempts += 1


@pytest.fixture
def server() -> Iterator[Refusing]:
    server = Refusing()
    yield server
    server.close()


def source_of(driver: type[Source], **options: object) -> Source:
    conf = cfg.ConfigOpts()
    conf.register_opts(engine_options.OPTS, group=engine_options.GROUP)
    conf.register_opts(driver.options, group="source_s")
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in options.items():
        conf.set_override(name, value, group="source_s")
    return driver("s", conf)


@pytest.mark.parametrize("driver", ["rabbitmq", "nats_jetstream"])
def test_each_reason_of_an_outage_is_logged_once(
    server: Refusing, caplog: pytest.LogCaptureFixture, driver: str
) -> None:
    if driver == "rabbitmq":
        source = source_of(
            RabbitMQSource, transport_url=f"rabbit://user:pa55word@127.0.0.1:{server.port}/", exchange="nova"
        )
    else:
        source = source_of(NatsJetStreamSource, servers=[f"nats://127.0.0.1:{server.port}"], stream="dcm-status")
    source.start(lambda _events: None)
    limit = Deadline(60)
    while server.attempts < 10:
        assert not limit.is_over, server.attempts
        time.sleep(0.02)
    source.stop(time.monotonic() + deadline(5))
    lines = collections.Counter(record.getMessage() for record in caplog.records)
    disconnected = {line: count for line, count in lines.items() if "disconnected" in line}
    assert disconnected
    assert set(disconnected.values()) == {1}


def test_nats_servers_that_refuse_are_named_in_one_reason() -> None:
    servers = [f"nats://127.0.0.1:{free_port()}" for _ in range(2)]
    source = source_of(NatsJetStreamSource, servers=servers, stream="dcm-status")
    reasons = set()
    for _ in range(10):  # each tries the servers in an order of its own
        with pytest.raises(SourceError) as caught:
            source.probe()
        reasons.add(str(caught.value))
    (reason,) = reasons
    assert [server.removeprefix("nats://") in reason for server in servers] == [True, True]

# SPDX-License-Identifier: Apache-2.0
"""More clients of the watch stream than the outlet may open files for."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import psutil
import pytest

from tests.functional.api.conftest import free_port
from tests.functional.engine.descriptors import may_open, on_a_processor
from tests.functional.engine.driving import Installation
from tests.functional.watch.clients import WatchClient, channel_to
from tests.functional.watch.test_executable import add_topic
from tests.functional.webhooks.driving import outlet
from tests.functional.webhooks.subscribing import Instances
from tests.waiting import deadline, wait_until

_SPARE = 6
_CLIENTS = 60
_SECONDS = 1.0


@pytest.mark.rare
def test_idle_clients_beyond_the_limit_of_open_files_stop_no_stream_and_others_connect_later(
    install: Callable[..., Installation], migrated_postgresql_url: str
) -> None:
    port = free_port()
    site = install(migrated_postgresql_url, outlet_webhook__enabled="false", outlet_watch__port=port)
    site.options |= {"outlet_watch.auth_strategy": "noauth", "database.journal_poll_interval": 0.02}
    add_topic(site)
    instances = Instances(site.store)
    process = outlet(site, site.config())
    process.wait_for_log("watch: listening on")
    with ExitStack() as stack:
        client = WatchClient(stack.enter_context(channel_to(port))).subscribe(after=0)
        client.wait_for(instances.write(range(5)))
        (worker,) = process.workers
        before = psutil.Process(worker).num_fds()
        stack.enter_context(may_open(worker, before + _SPARE))
        with ExitStack() as idle:
            for _ in range(_CLIENTS):
                idle.enter_context(socket.create_connection(("127.0.0.1", port), deadline(60)))
            began = time.monotonic()
            with on_a_processor(worker, 0.5):
                wait_until(lambda: time.monotonic() - began >= _SECONDS, _SECONDS + 10)
            assert psutil.Process(worker).num_fds() < before + _CLIENTS, "the limit was not reached"
            client.wait_for(instances.write(range(5, 10)))
        late = WatchClient(stack.enter_context(channel_to(port))).subscribe(after=0)
        head = instances.write(range(10, 15))
        for each in (client, late):
            each.wait_for(head)
            assert each.sequences == list(range(1, head + 1))
        assert process.workers == [worker], process.log
        assert "Traceback" not in process.log, process.log

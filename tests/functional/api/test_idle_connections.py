# SPDX-License-Identifier: Apache-2.0
"""The documented gunicorn command under a low limit of open files, and more idle clients than it permits."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.functional.api.conftest import config_on
from tests.functional.engine.descriptors import on_a_processor
from tests.functional.engine.driving import EngineProcess
from tests.functional.executables import BIN
from tests.functional.security import documented
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.storage.writing.store import Store

_FILES = 200
_CLIENTS = 300
_WRITES = 5
_SECONDS = 1.0


def test_idle_clients_beyond_the_limit_of_open_files_end_no_worker_and_lose_no_request(
    postgresql_store: Store, tmp_path: Path
) -> None:
    (words,) = documented.commands("admin/api.rst", "gunicorn")
    port = free_port()
    served = [str(BIN / "gunicorn"), *(word.replace(":8790", f":{port}") for word in words[1:]), "--workers", "1"]
    command = ["/bin/sh", "-c", f'ulimit -n {_FILES}; exec "$@"', "sh", *served]
    config, log = config_on(postgresql_store, tmp_path, write_rate=0), tmp_path / "api.log"
    environment = {**os.environ, "OS_WATCHER_SYNC_CONFIG_FILES": str(config)}
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=deadline(60), headers={"Connection": "close"})

    def write(number: int) -> int:
        body = {"service_type": "vm", "instance_name": f"i{number}"}
        return client.put(f"/v1/service_type_instances/i{number}", json=body).status_code

    def serves() -> bool:
        try:
            return client.get("/v1").status_code == 200
        except httpx.TransportError:
            return False

    with client, ThreadPoolExecutor(_WRITES) as pool, ExitStack() as ending:
        api = EngineProcess(command, log, environment)
        ending.callback(api.kill)
        wait_until(serves, what="the API")
        workers = api.workers
        assert write(0) == 201
        with ExitStack() as stack:
            for number in range(_CLIENTS):
                idle = stack.enter_context(socket.create_connection(("127.0.0.1", port), deadline(60)))
                if number % 2:
                    idle.sendall(b"GET /v1 HTTP/1.1\r\nHost: local")
            answers = [pool.submit(write, number) for number in range(1, _WRITES + 1)]
            began = time.monotonic()
            with on_a_processor(workers[0], 0.5):
                wait_until(lambda: time.monotonic() - began >= _SECONDS, _SECONDS + 10)
            assert api.workers == workers, api.log
            assert not any(answer.done() for answer in answers), "the limit was not reached"
        assert [answer.result(deadline(60)) for answer in answers] == [201] * _WRITES
        found = client.get("/v1/service_type_instances").json()["service_type_instances"]
        assert {entity["id"] for entity in found} == {f"i{number}" for number in range(_WRITES + 1)}
        assert api.workers == workers, api.log
        assert "Traceback" not in api.log

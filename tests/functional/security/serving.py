# SPDX-License-Identifier: Apache-2.0
"""The API under gunicorn, started with the command of the documentation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.functional.executables import BIN, start
from tests.functional.security import documented
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until


@contextlib.contextmanager
def documented_api(config: Path) -> Iterator[httpx.Client]:
    """Serve with a configuration file. Only the port of the documented command is another one."""
    (command,) = documented.commands("admin/api.rst", "gunicorn")
    port = free_port()
    command = [BIN / "gunicorn", *(word.replace(":8790", f":{port}") for word in command[1:])]
    environment = {**os.environ, "OS_WATCHER_SYNC_CONFIG_FILES": str(config)}
    name = config.parent / "api.log"
    process = start(command, name, environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=deadline(30)) as client:

            def answers() -> bool:
                assert process.poll() is None, name.read_text()[-2000:]
                try:
                    return client.get("/v1").status_code == 200
                except httpx.TransportError:
                    return False

            wait_until(answers, what="the API")
            yield client
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()

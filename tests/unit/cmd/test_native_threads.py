# SPDX-License-Identifier: Apache-2.0
"""oslo.service has native threads: in a command when a library asks for them, in a service before its parts exist."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.waiting import deadline

pytestmark = pytest.mark.slow

_COMMAND = """
    from oslo_service import backend
    from watcher_sync.assembly import process

    process.prepare()
    assert backend.get_backend_type() is None
    import oslo_service.service
"""
_SERVICE = """
    import sys
    from oslo_service import backend
    from watcher_sync.cmd import start

    sys.argv = ["watcher-sync-outlet", "--config-file", "site.conf"]
    try:
        start.outlet()
    except SystemExit as ended:
        assert ended.code == 1, "the database has no schema"
"""
_WSGI = """
    from oslo_service import backend
    from watcher_sync.exceptions import ConfigError
    from watcher_sync.wsgi import api

    try:
        api.init_application({api.FILES: "site.conf"})
    except ConfigError:
        pass  # the login is not set
"""


@pytest.mark.parametrize("program", [_COMMAND, _SERVICE, _WSGI], ids=["command", "service", "wsgi"])
def test_native_threads_are_chosen(tmp_path: Path, program: str) -> None:
    (tmp_path / "site.conf").write_text("[database]\nconnection = sqlite:///model.sqlite\n")
    done = subprocess.run(
        [sys.executable, "-c", f"{textwrap.dedent(program)}\nprint(backend.get_backend_type().name)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=deadline(120),
        check=False,
    )
    assert done.stdout.endswith("THREADING\n"), done.stderr

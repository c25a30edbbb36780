# SPDX-License-Identifier: Apache-2.0
"""gunicorn opens no socket with which the API could be controlled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.security.serving import documented_api


def test_the_documented_gunicorn_has_no_control_socket(
    migrated_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home := tmp_path / "home").mkdir()
    for variable in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(home))
    config = tmp_path / "watcher-sync.conf"
    config.write_text(f"[api]\nauth_strategy = noauth\n[database]\nconnection = {migrated_sqlite_url}\n")
    with documented_api(config) as api:
        assert api.get("/v1/instances").status_code == 200
        assert list(home.rglob("*gunicorn*")) == []
    # Its folder is made before the socket, which a thread opens later.
    assert "Control socket" not in (tmp_path / "api.log").read_text()

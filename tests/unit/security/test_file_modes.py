# SPDX-License-Identifier: Apache-2.0
"""Files that are looser than 0640 are restricted, and everything else stays as it is."""

from __future__ import annotations

import os
import stat

import pytest
import sqlalchemy as sa

from watcher_sync.conf import monitoring
from watcher_sync.conf.api import OPTS as API
from watcher_sync.storage.database.database import sqlite_path
from watcher_sync.storage.database.file_modes import restrict, restrict_umask


@pytest.fixture
def umask():
    """Sets the umask for the test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(("before", "after"), [(0o000, 0o027), (0o022, 0o027), (0o077, 0o077), (0o007, 0o027)])
def test_the_umask_becomes_027_unless_it_is_stricter(umask, before, after):
    umask(before)
    restrict_umask()
    assert umask(0o022) == after


@pytest.mark.parametrize(("before", "after"), [(0o666, 0o640), (0o644, 0o640), (0o755, 0o640), (0o600, 0o600)])
def test_a_file_keeps_at_most_0640(tmp_path, before, after):
    path = tmp_path / "file"
    path.touch()
    path.chmod(before)
    restrict(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == after


def test_directories_devices_and_missing_files_stay_as_they_are(tmp_path):
    tmp_path.chmod(0o755)
    restrict(str(tmp_path))
    restrict("/dev/null")
    restrict(str(tmp_path / "missing"))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE(os.stat("/dev/null").st_mode) & 0o666 == 0o666
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/lib/ws.sqlite", "/var/lib/ws.sqlite"),
        ("sqlite:///file:/var/lib/ws.sqlite?mode=rw&uri=true", "/var/lib/ws.sqlite"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("postgresql+psycopg://db/ws", None),
    ],
)
def test_the_file_of_an_sqlite_database_is_known(url, path):
    assert sqlite_path(sa.make_url(url)) == path


def test_nothing_listens_beyond_loopback_unless_configured():
    assert [o.default for o in (*monitoring.OPTS, *API) if o.name == "host"] == ["127.0.0.1", "127.0.0.1"]
    assert [o.default for o in API if o.name == "noauth_allow_remote"] == [False]

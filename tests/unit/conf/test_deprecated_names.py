# SPDX-License-Identifier: Apache-2.0
"""A configuration file with the old name of an option works, and oslo.config warns of it."""

from __future__ import annotations

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from watcher_sync.assembly import process  # noqa: E402
from watcher_sync.exceptions import ConfigError  # noqa: E402

RENAMED = [
    ("api", "follow_interval", "feed_poll_interval", "0.25", 0.25),
    ("api", "noauth_beyond_loopback", "noauth_allow_remote", "true", True),
    ("api", "stream_life", "stream_max_age", "42", 42.0),
    ("engine", "follow_interval", "journal_poll_interval", "0.75", 0.75),
    ("engine", "parked_time", "parked_ttl", "77", 77.0),
    ("monitoring", "silent_after", "idle_after", "88", 88.0),
    ("reconcile", "breaker_time", "breaker_reset_timeout", "99", 99.0),
]


@pytest.fixture
def read(tmp_path):
    """Reads one file as an executable reads it."""

    def read(text):
        path = tmp_path / "watcher-sync.conf"
        path.write_text(text)
        return process.make_conf(["--config-file", str(path)], prog="test")

    return read


@pytest.mark.parametrize(("group", "old", "new", "text", "value"), RENAMED)
def test_the_old_name_works_and_is_warned_of(read, caplog, group, old, new, text, value):
    conf = read(f"[{group}]\n{old} = {text}\n")
    assert conf[group][new] == value
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [w for w in warnings if f'"{old}" from group "{group}"' in w and f'"{new}"' in w], warnings


@pytest.mark.parametrize(("group", "old", "new", "text", "value"), RENAMED)
def test_the_new_name_works_without_a_warning(read, caplog, group, old, new, text, value):
    conf = read(f"[{group}]\n{new} = {text}\n")
    assert conf[group][new] == value
    assert not [record for record in caplog.records if old in record.getMessage()]


def test_an_old_name_in_the_wrong_group_is_an_error(read):
    with pytest.raises(ConfigError, match="unknown option parked_time in \\[api\\]"):
        read("[api]\nparked_time = 5\n")


def test_a_reload_reads_the_old_name_too(read, tmp_path):
    conf = read("[engine]\nparked_time = 5\n")
    (tmp_path / "watcher-sync.conf").write_text("[engine]\nparked_time = 6\n")
    assert ("engine", "parked_ttl") in conf.mutate_config_files()
    assert conf.engine.parked_ttl == 6

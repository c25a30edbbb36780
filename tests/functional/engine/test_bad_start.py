# SPDX-License-Identifier: Apache-2.0
"""An engine that cannot work says why in one line, before it goes to work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.functional.engine.driving import Installation
from tests.services.servers import free_port

_PORT_THAT_IS_NONE = "postgresql://nova:hunter2@127.0.0.1:port/nova"

NOVA = {
    "engine.enabled_sources": "nova",
    "source_nova.driver": "oslo_messaging",
    "source_nova.transport_url": "fake://",
}


@pytest.mark.parametrize(
    ("options", "status", "named"),
    [
        ({"engine.batch_sise": 3}, 2, "batch_sise"),
        pytest.param({"engin.batch_size": 3}, 2, "engin", marks=pytest.mark.rare),
        pytest.param({"engine.batch_size": "many"}, 2, "batch_size", marks=pytest.mark.rare),
        pytest.param({"source_nova.driver": "carrier_pigeon"}, 2, "carrier_pigeon", marks=pytest.mark.rare),
        ({"source_nova.transport_url": "not a url with hunter2"}, 2, "transport_url"),
        ({"database.connection": "oracle://nova:hunter2@127.0.0.1/nova"}, 2, "[database] connection"),
        pytest.param(
            {"database.connection": _PORT_THAT_IS_NONE},
            2,
            "[database] connection",
            marks=pytest.mark.rare,
        ),
        pytest.param({"database.connection": "hunter2"}, 2, "[database] connection", marks=pytest.mark.rare),
        (
            {
                "database.connection": f"postgresql://nova:hunter2@127.0.0.1:{free_port()}/nova",
                "database.max_retries": 0,
            },
            1,
            "",
        ),
        ({}, 1, "db_sync"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_bad_start_is_one_line_and_an_exit_status(
    install: Callable[..., Installation], sqlite_url: str, options: dict[str, object], status: int, named: str
) -> None:
    site = install(sqlite_url)
    site.options |= NOVA
    config = site.folder / "bad.conf"
    site.write_config(config, options)
    done = site.run("watcher-sync-engine", config=config)
    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1), done.stderr
    assert named in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_a_configuration_file_that_is_not_there_is_named(install: Callable[..., Installation], sqlite_url: str) -> None:
    site = install(sqlite_url)
    done = site.run("watcher-sync-engine", config=site.folder / "nowhere.conf")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "nowhere.conf" in done.stderr


def test_a_second_engine_that_is_not_to_stand_by_refuses_to_start(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    # The second one waits for a renewal. A leader that is paused for longer counts as dead.
    site = install(sqlite_url, database__lease_time=15)
    site.options |= NOVA
    site.upgrade()
    first = site.engine(site.config())
    first.wait_until_leading()
    done = site.run("watcher-sync-engine")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "standby" in done.stderr
    assert first.running
    assert first.terminate()[0] == 0


def test_an_engine_starts_at_once_after_one_that_was_killed(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    site = install(sqlite_url, database__lease_time=300)
    site.options |= NOVA
    site.upgrade()
    config = site.config()
    first = site.engine(config)
    first.wait_until_leading()
    first.kill()
    second = site.engine(config)
    second.wait_until_leading(120)  # less than the lease of the dead one
    assert second.terminate()[0] == 0

# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-status upgrade check`` names the problems, and its exit status their severity."""

from __future__ import annotations

import datetime
import json
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import Broker
from tests.functional.engine.driving import Installation
from tests.services.ensure import url_of
from tests.waiting import deadline
from watcher_sync.storage.groups.source_status import InventoryRow, write_inventory
from watcher_sync.testing.nova.cloud import CloudSimulator, write_jsonl

HINT_ALL = "notification_format = versioned"
HINT_UPDATES = "notify_on_state_change"


@pytest.fixture
def site(tmp_path: Path, sqlite_url: str, broker: Broker) -> Iterator[Installation]:
    """An installation with one source of Nova's, whose schema is there."""
    with Installation(tmp_path, sqlite_url, {"engine.enabled_sources": "nova"}) as site:
        site.options |= source("nova", broker.url, broker.name("nova"))
        site.options |= {"reconcile_nova.enabled": "true", "reconcile_nova.cloud": "edge"}
        # A row of the journal has the type of the batch's last event for it, so large batches hide types.
        site.options |= {"engine.batch_size": "10"}
        site.upgrade()
        yield site


def source(name: str, url: str, queue: str, driver: str = "rabbitmq") -> dict[str, object]:
    options = {"driver": driver, "transport_url": url, "exchange": queue, "pool": queue}
    return {f"source_{name}.{option}": value for option, value in options.items()}


def checked(site: Installation, *arguments: str) -> tuple[int, dict[str, tuple[int, str]]]:
    """The exit status, and what each check found: check -> (code, details)."""
    done = site.run("watcher-sync-status", "upgrade", "check", "--json", *arguments)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    return done.returncode, {c["check"]: (c["result"], c["details"] or "") for c in document["checks"]}


def played(site: Installation, tmp_path: Path, keep: Callable[[Any], bool]) -> None:
    """Replay the notifications of a cloud for which ``keep`` is true, as those of the source nova."""
    recording = tmp_path / "recorded.jsonl"
    write_jsonl(recording, [d for d in CloudSimulator(seed=5, hosts=3, instances=9).history(300) if keep(d)])
    site.manage("replay", "--source", "nova", recording)


def type_of(document: Any) -> str:
    inner = json.loads(document["oslo.message"]) if "oslo.message" in document else document
    return str(inner["event_type"])


def test_all_is_well_where_nova_sends_everything(site: Installation, tmp_path: Path) -> None:
    played(site, tmp_path, lambda d: True)
    status, found = checked(site)
    assert found == {
        "Security of files": (0, ""),
        "Security of access": (0, ""),
        "Security of transports": (0, ""),
        "Policy": (0, ""),
        "Database schema": (0, ""),
        "Sources": (0, ""),
        "Drivers of sources": (0, ""),
        "Outlets": (0, ""),
        "Nova's notifications": (0, ""),
        "Nova's inventory": (0, ""),
        "Extensions": (0, "dcm, federation, kubernetes, log, openstack, vnf, watch, webhooks"),
    }
    assert status == 0
    done = site.run("watcher-sync-status", "upgrade", "check")
    assert (done.returncode, done.stdout.count("Result: Success")) == (0, 11)


@pytest.mark.rare
def test_a_fresh_interpreter_runs_the_installed_script(site: Installation, tmp_path: Path) -> None:
    """The other tests use preloaded processes."""
    played(site, tmp_path, lambda d: True)
    command = [*site.command("watcher-sync-status", site.config()), "upgrade", "check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=deadline(120), check=False)
    assert (done.returncode, done.stdout.count("Result: Success")) == (0, 11)


def test_a_source_with_the_driver_rabbitmq_is_probed_and_receives_novas_notifications(site: Installation) -> None:
    site.options["source_nova.driver"] = "rabbitmq"
    _, found = checked(site)
    assert found["Sources"] == (0, "")
    code, hint = found["Nova's notifications"]
    assert code == 1
    assert HINT_ALL in hint


def test_an_insecure_setting_is_a_warning_with_the_option_and_the_file(site: Installation) -> None:
    site.options |= {"api.auth_strategy": "noauth", "engine.enabled_sources": ""}
    status, found = checked(site)
    code, details = found["Security of access"]
    assert (status, code) == (1, 1)
    assert details.startswith(f"[api] auth_strategy ({site.folder}")
    assert details.endswith("set auth_strategy = keystone.")


def test_what_nova_hides_by_default_is_a_warning_that_names_the_option(site: Installation, tmp_path: Path) -> None:
    status, found = checked(site)
    assert (status, found["Nova's notifications"][0]) == (1, 1)
    assert HINT_ALL in found["Nova's notifications"][1]
    played(site, tmp_path, lambda d: type_of(d) != "instance.update")
    status, found = checked(site)
    assert (status, found["Nova's notifications"][0]) == (1, 1)
    assert HINT_UPDATES in found["Nova's notifications"][1]
    assert HINT_ALL not in found["Nova's notifications"][1]


def test_notifications_without_the_reconciler_are_a_warning_with_the_reason(site: Installation, tmp_path: Path) -> None:
    played(site, tmp_path, lambda d: True)
    site.options["reconcile_nova.enabled"] = "false"
    status, found = checked(site)
    code, details = found["Nova's inventory"]
    assert (status, code) == (1, 1)
    assert details.startswith("[reconcile_nova] enabled is false: ")
    assert "existed before" in details


def test_what_the_account_does_not_see_is_a_warning_with_the_rule(site: Installation) -> None:
    now = datetime.datetime.now(datetime.UTC)
    problem = "unknown: server groups (context_is_admin)"
    write_inventory(
        site.store.database, InventoryRow(source="nova", complete_since=now, problem=problem, updated_at=now)
    )
    status, found = checked(site)
    assert (status, found["Nova's inventory"]) == (1, (1, f"nova: {problem}"))


def test_a_reconciler_without_an_account_is_a_failure(site: Installation) -> None:
    del site.options["reconcile_nova.cloud"]
    status, found = checked(site)
    assert (status, found["Nova's inventory"][0]) == (2, 2)
    assert "[reconcile_nova] cloud, auth_type: are not set" in found["Nova's inventory"][1]


def test_what_came_too_long_ago_does_not_count(site: Installation, tmp_path: Path) -> None:
    played(site, tmp_path, lambda d: True)
    with site.store.database.begin() as connection:
        table = site.store.tables.journal
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=5)
        connection.execute(table.update().values(time=past))
    assert checked(site, "--hours", "4")[1]["Nova's notifications"][0] == 1
    assert checked(site, "--hours", "6")[1]["Nova's notifications"] == (0, "")


def test_sources_that_cannot_be_reached_are_failures_and_no_password_is_shown(
    site: Installation, broker: Broker
) -> None:
    site.options["engine.enabled_sources"] = "nova, closed, stranger"
    host = broker.url.rpartition("@")[2]
    site.options |= source("stranger", f"rabbit://nobody:hidden@{host}", "q")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # without listening: it refuses, and no other process gets the port
        port = closed.getsockname()[1]
        site.options |= source("closed", f"rabbit://guest:hidden@127.0.0.1:{port}/", "q")
        status, found = checked(site)
    code, details = found["Sources"]
    assert (status, code) == (2, 2)
    assert "closed: " in details
    assert "stranger: " in details
    assert "nova: " not in details
    assert "hidden" not in details


def test_a_source_that_is_configured_wrong_and_one_that_cannot_tell(site: Installation, tmp_path: Path) -> None:
    site.options["engine.enabled_sources"] = "file"
    site.options |= {"source_file.driver": "replay", "source_file.paths": tmp_path}
    status, found = checked(site)
    assert (status, found["Sources"]) == (0, (0, "The driver has no probe: file"))
    assert found["Nova's notifications"] == (0, "No enabled source receives Nova's notifications.")
    assert found["Nova's inventory"] == (0, "No enabled source receives Nova's notifications.")
    site.options["source_file.driver"] = "smoke"
    assert checked(site)[1]["Sources"][0] == 2
    site.options["engine.enabled_sources"] = ""
    assert checked(site)[1]["Sources"][0] == 1


def test_rabbitmq_through_oslo_messaging_is_a_warning_and_another_transport_is_none(
    site: Installation, broker: Broker, tmp_path: Path
) -> None:
    played(site, tmp_path, lambda d: True)
    site.options |= source("nova", broker.url, broker.name("nova"), "oslo_messaging")
    status, found = checked(site)
    code, details = found["Drivers of sources"]
    assert (status, code) == (1, 1)
    assert details.startswith(f"[source_nova] driver ({site.folder}")
    assert details.endswith("set driver = rabbitmq, which takes over the queue.")
    assert found["Sources"] == (0, "The driver has no probe: nova")
    site.options |= source("nova", "kombu+memory:////", broker.name("nova"), "oslo_messaging")
    status, found = checked(site)
    assert (status, found["Drivers of sources"]) == (0, (0, ""))


def test_a_log_that_takes_no_entity_of_the_largest_size_is_a_warning_with_both_numbers(site: Installation) -> None:
    options = {"driver": "nats_jetstream", "servers": url_of("nats"), "stream": f"s-{secrets.token_hex(4)}"}
    site.options |= {"outlets.enabled": "bus", **{f"outlet_bus.{name}": value for name, value in options.items()}}
    _, found = checked(site)
    code, details = found["Outlets"]
    assert code == 1
    assert "bus: an entity of the kind vnf_instance may have 2097152 bytes, and the log takes 1046528: " in details
    assert "Raise max_payload of the NATS servers" in details
    site.options["outlet_bus.kinds"] = "pod"
    assert checked(site)[1]["Outlets"] == (0, "")
    site.options["outlet_bus.servers"] = "nats://127.0.0.1:1"
    code, details = checked(site)[1]["Outlets"]
    assert (code, details.startswith("Unavailable: bus: ")) == (2, True)


def test_a_schema_that_is_missing_is_a_failure_with_what_to_do(site: Installation) -> None:
    with site.store.database.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    status, found = checked(site)
    assert (status, found["Database schema"][0]) == (2, 2)
    assert "run watcher-sync-manage db_sync" in found["Database schema"][1]
    assert found["Nova's notifications"][0] == 1


def test_wrong_usage_and_configuration_are_one_line(site: Installation) -> None:
    done = site.run("watcher-sync-status")
    assert (done.returncode, "watcher-sync-status" in done.stderr) == (2, True)
    site.options["engine.batch_sice"] = 1
    done = site.run("watcher-sync-status", "upgrade", "check")
    assert (done.returncode, "unknown option batch_sice" in done.stderr) == (2, True)


def test_a_charset_of_mariadb_that_lacks_characters_is_a_warning(tmp_path: Path, mariadb_url: str) -> None:
    with Installation(tmp_path, f"{mariadb_url}&charset=utf8") as site:
        site.upgrade()
        code, details = checked(site)[1]["Database schema"]
    assert (code, "charset=utf8 of [database] connection" in details) == (1, True), details

# SPDX-License-Identifier: Apache-2.0
"""Watcher's own model of a real cloud beside that which watcher-sync-watcher builds from our model of it.

Watcher runs in a Python of its own, because its requirements are its own. :data:`VARIABLE` names it.
"""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import threading
import wsgiref.simple_server
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from tests.real_nova.cloud import Cloud
from tests.real_nova.modes import Follower
from tests.real_nova.recording import Recorder
from tests.real_nova.settings import COMPUTES, HOSTS
from tests.real_nova.stage import Stage
from tests.waiting import deadline
from watcher_sync.assembly.api import make_application
from watcher_sync.conf import opts

VARIABLE = "WATCHER_SYNC_TEST_WATCHER"
"""Names a Python interpreter that has python-watcher and watcher-sync-watcher."""

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} names no Python with Watcher"),
]

_SCRIPT = Path(__file__).parents[2] / "contrib" / "watcher-sync-watcher" / "collector_tests" / "comparing.py"
_NOVA_VERSION = "2.96"
_SERVERS = int(os.environ.get("WATCHER_SYNC_TEST_WATCHER_SERVERS", "12"))
"""Servers of the cloud, at least 12. Each takes about two seconds."""


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


@pytest.fixture
def endpoint(followed: Follower) -> Iterator[str]:
    """An API without tokens over the model of the cloud."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_strategy", "noauth", group="api")
    application = make_application(conf, followed.installation.store)
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, application, _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def busy(cloud: Cloud, followed: Follower) -> None:
    """Servers in many states, of which the model knows by notifications and one comparison."""
    with Recorder(cloud.transport_urls) as recorder:
        stage = Stage(cloud, recorder)
        zone = stage.create_aggregate("blue", zone="blue")
        stage.act_on_aggregate(zone, "add_host", host=COMPUTES[2])
        for number in range(_SERVERS):
            zoned = {"by": stage.tenant, "zone": "blue"} if number % 6 == 5 else {"host": COMPUTES[number % 3]}
            stage.boot(f"w-{number}", flavor="large" if number % 4 == 3 else "small", **zoned)  # type: ignore[arg-type]
        stage.do("w-0", "os-stop", status="SHUTOFF", event="instance.power_off.end")
        stage.do("w-1", "pause", status="PAUSED", event="instance.pause.end")
        stage.act("w-2", "lock")
        stage.do("w-3", "shelve", status="SHELVED", event="instance.shelve.end")
        stage.do("w-3", "shelveOffload", status="SHELVED_OFFLOADED", event="instance.shelve_offload.end")
        stage.do("w-4", "migrate", status="VERIFY_RESIZE", event="instance.resize_finish.end")
        stage.delete("w-6")
        stage.update_service(COMPUTES[1], status="disabled", disabled_reason="fan")
        recorder.await_silence()
        followed.settle(recorder.count)
        followed.reconcile()


@pytest.fixture
def compared(cloud: Cloud, busy: None, endpoint: str) -> dict[str, Any]:
    """What the script says of both models."""
    given = {"login": cloud.login, "endpoint": endpoint, "nova_version": _NOVA_VERSION}
    command = [os.environ[VARIABLE], "-W", "ignore", str(_SCRIPT)]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, timeout=deadline(300), check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_both_models_are_equal_attribute_by_attribute_and_lead_to_the_same_plans(
    compared: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, ours = compared["theirs"], compared["ours"]
    with capsys.disabled():
        for name, side in (("Watcher's collector", theirs), ("watcher-sync-watcher", ours)):
            sizes = f"{len(side['model']['nodes'])} hosts, {len(side['model']['instances'])} servers"
            print(f"\n{name}: {sizes}, {side['requests']} requests, {side['seconds']:.2f} s")
        print({name: f"{len(plans[0])} actions" for name, plans in compared["plans"].items()})
    assert len(theirs["model"]["nodes"]) == len(HOSTS)
    # The story leaves servers of its own.
    booted = [one for one in theirs["model"]["instances"].values() if one["name"].startswith("w-")]
    assert len(booted) == _SERVERS - 2
    assert ours["model"] == theirs["model"]
    assert [path for _, path in ours["asked"]] == ["/v1/compute_model"]
    assert theirs["requests"] > len(HOSTS) * 2
    for name, (of_theirs, of_ours) in compared["plans"].items():
        assert of_theirs == of_ours, name
        assert of_theirs, name

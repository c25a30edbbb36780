# SPDX-License-Identifier: Apache-2.0
"""The two ways to serve the application: under a WSGI server, and the development server."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from oslo_config import cfg

from tests.services.servers import free_port
from tests.unit.api.conftest import Client
from tests.waiting import Deadline, deadline
from watcher_sync.cmd import api_server as command
from watcher_sync.conf import api as options
from watcher_sync.exceptions import ConfigError
from watcher_sync.wsgi.api import init_application

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent


@pytest.fixture
def config(tmp_path, store):
    file = tmp_path / "ws.conf"

    def write(**api):
        url = store.database.url.render_as_string(hide_password=False)
        lines = ["[database]", f"connection = {url}", "[api]", "auth_strategy = noauth"]
        file.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in api.items())]) + "\n")
        return file

    return write


def test_under_a_wsgi_server_the_environment_names_the_configuration(config):
    application = init_application({"OS_WATCHER_SYNC_CONFIG_FILES": str(config())})
    assert Client(application).simulate_get("/v1").status_code == 200


def test_an_unknown_option_is_said_at_the_start(config):
    with pytest.raises(ConfigError, match="did you mean port"):
        init_application({"OS_WATCHER_SYNC_CONFIG_FILES": str(config(prt=1))})


@pytest.mark.parametrize(
    ("host", "strategy", "forced", "allowed"),
    [
        ("127.0.0.1", "noauth", False, True),
        ("::1", "noauth", False, True),
        ("localhost", "noauth", False, True),
        ("0.0.0.0", "noauth", False, False),
        ("192.0.2.1", "noauth", False, False),
        ("::", "noauth", False, False),
        ("0.0.0.0", "noauth", True, True),
        ("0.0.0.0", "keystone", False, True),
    ],
)
def test_without_authentication_only_loopback_is_listened_on_unless_forced(host, strategy, forced, allowed):
    conf = cfg.ConfigOpts()
    conf.register_opts(options.OPTS, group=options.GROUP)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in (("host", host), ("auth_strategy", strategy), ("noauth_allow_remote", forced)):
        conf.set_override(name, value, group="api")
    if allowed:
        command._check_address(conf)
    else:
        with pytest.raises(ConfigError, match="noauth_allow_remote"):
            command._check_address(conf)


def test_the_development_server_serves_and_ends_with_status_0_at_sigterm(config):
    port = free_port()
    process = subprocess.Popen([BIN / "watcher-sync-api", "--config-file", config(port=port)])
    try:
        limit = Deadline(60)
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1", timeout=deadline(5)) as answer:
                    assert answer.status == 200
                break
            except OSError:
                assert process.poll() is None
                assert not limit.is_over
        process.send_signal(signal.SIGTERM)
        assert process.wait(deadline(60)) == 0
    finally:
        process.kill()


def test_the_development_server_refuses_to_be_open_in_one_line(config):
    done = subprocess.run(
        [BIN / "watcher-sync-api", "--config-file", config(host="0.0.0.0")],
        capture_output=True,
        text=True,
        timeout=deadline(60),
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: [api] host = 0.0.0.0")

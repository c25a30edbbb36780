# SPDX-License-Identifier: Apache-2.0
"""The ports of all processes of the outlet differ, whichever extension brings them."""

from __future__ import annotations

import pytest

from watcher_sync.assembly.process import make_conf
from watcher_sync.cmd.outlet_services import check
from watcher_sync.exceptions import ConfigError

WATCH = "[outlet_watch]\nauth_strategy = noauth\nport = 9003\nmonitoring_port = 9004\n"
LOGS = "[outlets]\nenabled = bus\nmonitoring_port = {port}\n[outlet_bus]\ndriver = nats_jetstream\nstream = S\n"
WEBHOOKS = "[outlet_webhook]\nworkers = 3\nmonitoring_port = 9000\n"


@pytest.mark.parametrize(
    ("port", "other"),
    [
        (9001, "[outlet_webhook] monitoring_port, workers"),
        (9003, "[outlet_watch] port"),
        (9004, "[outlet_watch] monitoring_port"),
        (9005, "[monitoring] port"),
    ],
)
def test_a_port_of_two_processes_is_an_error_that_names_both_options(tmp_path, port, other):
    file = tmp_path / "ws.conf"
    text = f"[DEFAULT]\nstate_path = {tmp_path}\n[monitoring]\nport = 9005\n{WATCH}{WEBHOOKS}"

    def checked(logs: str) -> None:
        file.write_text(text + logs)
        check(make_conf([f"--config-file={file}"], prog="test"))

    checked(LOGS.format(port=9006))
    with pytest.raises(ConfigError) as caught:
        checked(LOGS.format(port=port))
    assert f"{port} is also" in str(caught.value)
    assert "[outlets] monitoring_port" in str(caught.value)
    assert other in str(caught.value)

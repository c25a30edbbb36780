# SPDX-License-Identifier: Apache-2.0
"""Start ``ironic-conductor`` with fake hardware that a test can break. The arguments are those of ``ironic-conductor``.

The environment names the folder in ``FAKE_HARDWARE``. There ``<node>.power`` has the power state of the machine.
``<node>.fails`` has the names of the actions that fail, one a line.

Each action takes a moment, as on real hardware. If one ends while the conductor still publishes its start, Ironic loses
the notification of its end: both threads use ``TaskManager._event``.
"""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any

# The first import of the program, because it prepares the threads.
from ironic.command import conductor  # isort: skip
from ironic.common import exception, states
from ironic.drivers.modules import fake

_ACTION_SECONDS = 0.2
_FOLDER = pathlib.Path(os.environ["FAKE_HARDWARE"])


def _check(task: Any, action: str) -> None:
    faults = _FOLDER / f"{task.node.uuid}.fails"
    if faults.exists() and action in faults.read_text().split():
        raise exception.PowerStateFailure(pstate=action)


def _power(task: Any) -> pathlib.Path:
    return _FOLDER / f"{task.node.uuid}.power"


def _sleep(_range: object) -> None:
    time.sleep(_ACTION_SECONDS)


def _get_power_state(_self: Any, task: Any) -> str:
    _sleep(None)
    _check(task, "get_power_state")
    return _power(task).read_text() if _power(task).exists() else states.POWER_OFF


def _set_power_state(_self: Any, task: Any, power_state: str, timeout: float | None = None) -> None:
    _sleep(None)
    _check(task, "set_power_state")
    _power(task).write_text(states.POWER_ON if power_state == states.POWER_ON else states.POWER_OFF)


def _reboot(_self: Any, task: Any, timeout: float | None = None) -> None:
    _sleep(None)
    _check(task, "set_power_state")
    _power(task).write_text(states.POWER_ON)


def _deploy_prepare(_self: Any, task: Any) -> None:
    _sleep(None)
    _check(task, "deploy")


def _erase(_self: Any, task: Any) -> None:
    _sleep(None)
    _check(task, "clean")


if __name__ == "__main__":
    fake.sleep = _sleep
    fake.FakePower.get_power_state = _get_power_state
    fake.FakePower.set_power_state = _set_power_state
    fake.FakePower.reboot = _reboot
    fake.FakeDeploy.prepare = _deploy_prepare
    fake.FakeDeploy.prepare_cleaning = _erase
    conductor.main()

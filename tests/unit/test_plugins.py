# SPDX-License-Identifier: Apache-2.0
"""Whatever a plugin raises, only the plugin fails; a true SIGINT ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from stevedore import _cache

from watcher_sync.cmd.start import accept_interrupt
from watcher_sync.exceptions import Interrupted, described, interrupts
from watcher_sync.plugins import load_plugins

RAISED = ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "AssertionError", "asyncio.CancelledError", "ValueError")


@pytest.fixture
def accepted() -> Iterator[None]:
    """SIGINT as our executables handle it."""
    before = signal.getsignal(signal.SIGINT)
    accept_interrupt()
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("accepted")
def test_a_plugin_whose_module_raises_anything_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["[watcher_sync.test]"]
    for number, name in enumerate(RAISED):
        (tmp_path / f"raising_{number}.py").write_text(f"import asyncio\nraise {name}('why')\n")
        lines.append(f"p{number} = raising_{number}:Plugin")
    (tmp_path / "raising_none.py").write_text("Plugin = 7\n")
    lines.append("sound = raising_none:Plugin")
    info = tmp_path / "raising-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: raising\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("stevedore.extension.ExtensionManager.ENTRY_POINT_CACHE", {})
    monkeypatch.setattr("stevedore._cache._c", _cache.Cache())

    failed: dict[str, BaseException] = {}
    (sound,) = load_plugins("watcher_sync.test", failed.__setitem__)
    assert (sound.name, sound.module, sound.plugin) == ("sound", "raising_none", 7)
    assert {name: described(exc) for name, exc in failed.items()} == {
        f"p{number}": f"{name.rpartition('.')[2]}: why" for number, name in enumerate(RAISED)
    }


@pytest.mark.usefixtures("accepted")
def test_a_signal_is_an_interrupt_and_what_a_plugin_raises_is_none() -> None:
    with pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupts(caught.value)
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        assert not interrupts(kind())


def test_where_no_handler_of_the_signal_is_ours_a_keyboard_interrupt_of_the_main_thread_is_one() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert interrupts(KeyboardInterrupt())
        assert not interrupts(SystemExit())
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_exception_whose_text_raises_is_described_all_the_same() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert described(Unprintable()) == "Unprintable: (its text cannot be read)"

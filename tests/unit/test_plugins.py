# SPDX-License-Identifier: Apache-2.0
"""Whatever a plugin raises, only the plugin fails; a true SIGINT ends the process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_upgradecheck.upgradecheck import Code
from stevedore import _cache

from watcher_sync import plugins
from watcher_sync.assembly.process import make_conf
from watcher_sync.assembly.sources import load_driver, source_makers
from watcher_sync.cmd.checks.insecure_settings import find_insecure_transports
from watcher_sync.cmd.checks.loose_files import find_loose_files
from watcher_sync.cmd.checks.upgrade import Checks
from watcher_sync.cmd.start import accept_interrupt
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.exceptions import ConfigError, Interrupted, described, interrupts
from watcher_sync.extensions.log import assembly as log
from watcher_sync.extensions.log.options import OUTLETS
from watcher_sync.model.loading import load_kinds
from watcher_sync.plugins import load_plugins

RAISED = ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "AssertionError", "asyncio.CancelledError", "ValueError")


@pytest.fixture
def accepted() -> Iterator[None]:
    """SIGINT as our executables handle it."""
    before = signal.getsignal(signal.SIGINT)
    accept_interrupt()
    yield
    signal.signal(signal.SIGINT, before)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Have a distribution with these lines of entry points on the path."""
    info = folder / "raising-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: raising\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr("stevedore.extension.ExtensionManager.ENTRY_POINT_CACHE", {})
    monkeypatch.setattr("stevedore._cache._c", _cache.Cache())
    monkeypatch.setattr("watcher_sync.plugins.unloadable", {})


@pytest.mark.usefixtures("accepted")
def test_a_plugin_whose_module_raises_anything_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["[watcher_sync.test]"]
    for number, name in enumerate(RAISED):
        (tmp_path / f"raising_{number}.py").write_text(f"import asyncio\nraise {name}('why')\n")
        lines.append(f"p{number} = raising_{number}:Plugin")
    (tmp_path / "raising_none.py").write_text("Plugin = 7\n")
    install(tmp_path, monkeypatch, *lines, "sound = raising_none:Plugin")

    failed: dict[str, BaseException] = {}
    (sound,) = load_plugins("watcher_sync.test", failed.__setitem__)
    assert (sound.name, sound.module, sound.plugin) == ("sound", "raising_none", 7)
    assert {name: described(exc) for name, exc in failed.items()} == {
        f"p{number}": f"{name.rpartition('.')[2]}: why" for number, name in enumerate(RAISED)
    }
    assert plugins.unloadable == {f"watcher_sync.test {name}": described(exc) for name, exc in failed.items()}


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


def test_a_configured_driver_that_is_not_there_is_an_error_that_names_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needing_more.py").write_text("import a_missing_library\n")
    groups = (opts.SOURCES, OUTLETS)
    install(tmp_path, monkeypatch, *(f"[{group}]\nbroken = needing_more:Plugin" for group in groups))
    load_driver.cache_clear()
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])

    def configure(driver: str) -> None:
        for namespace, option in ((opts.SOURCES, "enabled_sources"), (OUTLETS, "enabled")):
            section = opts.register_instance(conf, namespace, "x")
            conf.set_override("driver", driver, group=section)
            conf.set_override(option, ["x"], group="engine" if section == "source_x" else "outlets")

    configure("broken")
    reason = "driver = broken cannot be loaded: ModuleNotFoundError: No module named 'a_missing_library'"
    with pytest.raises(ConfigError, match=re.escape(f"[source_x] {reason}")):
        source_makers(conf, None)
    with pytest.raises(ConfigError, match=re.escape(f"[outlet_x] {reason}")):
        log.check(conf)
    configure("moon")
    with pytest.raises(ConfigError, match=re.escape("[source_x] driver = moon is not installed; there are broken")):
        source_makers(conf, None)
    load_driver.cache_clear()


WRONG_DRIVERS = """
from watcher_sync.extensions.log.base import Outlet
from watcher_sync.sources.base import Source

class NoDriver:
    options = []

class AbstractSource(Source):
    pass

class AbstractOutlet(Outlet):
    pass
"""


@pytest.mark.parametrize(
    ("kind", "driver", "reason"),
    [
        ("source", "NoDriver", "is no subclass of watcher_sync.sources.base.Source"),
        ("source", "AbstractSource", "cannot be used: TypeError: Can't instantiate abstract class"),
        ("outlet", "NoDriver", "is no subclass of watcher_sync.extensions.log.base.Outlet"),
        ("outlet", "AbstractOutlet", "cannot be used: TypeError: Can't instantiate abstract class"),
    ],
)
def test_a_wrong_driver_is_an_error_of_the_section_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, driver: str, reason: str
) -> None:
    (tmp_path / "wrong_drivers.py").write_text(WRONG_DRIVERS)
    install(tmp_path, monkeypatch, f"[watcher_sync.{kind}s]", f"{driver.lower()} = wrong_drivers:{driver}")
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    config = tmp_path / "config"
    config.write_text(
        f"[engine]\nenabled_sources = wrong\n[outlets]\nenabled = wrong\n[{kind}_wrong]\ndriver = {driver.lower()}\n"
    )
    conf([], default_config_files=[str(config)], default_config_dirs=[])
    with pytest.raises(ConfigError, match=rf"\[{kind}_wrong\] driver = {driver.lower()} {reason}"):
        source_makers(conf, None) if kind == "source" else log.make_outlets(conf)


CONFIGURED = """
from watcher_sync.exceptions import ConfigError
from watcher_sync.handlers.base import Handler

class Reads(Handler):
    events = {"a.b": None}

    def configure(self, conf):
        raise %s
"""


def load_configured(folder: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> Dispatcher:
    """The table with a handler that raises this when it reads the configuration."""
    (folder / "reads.py").write_text(CONFIGURED % error)
    monkeypatch.delitem(sys.modules, "reads", raising=False)
    install(folder, monkeypatch, "[watcher_sync.handlers]", "reads = reads:Reads")
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    return load_handlers(conf)


def test_a_handler_that_refuses_the_configuration_is_an_error_for_the_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"^\[source_a\] color: no such color$"):
        load_configured(tmp_path, monkeypatch, "ConfigError('[source_a] color: no such color')")


def test_a_handler_that_fails_to_read_the_configuration_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = load_configured(tmp_path, monkeypatch, "SystemExit(3)")
    assert [(each.plugin, each.reason) for each in table.failures] == [("reads", "SystemExit: 3")]
    assert table.find("a.b") is None
    assert "nova" in table.dialects


DECLARING_DRIVERS = """
from oslo_config import cfg

from watcher_sync.conf.findings import NamedFile, place
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import Outlet
from watcher_sync.sources.base import Source

class Declaring:
    options = [cfg.StrOpt("key_file"), cfg.BoolOpt("tls")]

    @staticmethod
    def insecure_transports(conf, section):
        yield f"{place(conf, 'tls', section)}: set it."

    @staticmethod
    def named_files(conf, section):
        return [NamedFile(section, "key_file", conf[section].key_file)]

class Wrong(Declaring):
    @staticmethod
    def insecure_transports(conf, section):
        yield "unfinished"
        raise ConfigError("an option")

class Raising(Wrong):
    @staticmethod
    def named_files(conf, section):
        raise SystemExit

class DeclaringSource(Declaring, Source): pass
class DeclaringOutlet(Declaring, Outlet): pass
class WrongSource(Wrong, Source): pass
class WrongOutlet(Wrong, Outlet): pass
class RaisingSource(Raising, Source): pass
class RaisingOutlet(Raising, Outlet): pass
"""


@pytest.mark.parametrize(
    ("kind", "enabled_by"), [("source", "[engine]\nenabled_sources"), ("outlet", "[outlets]\nenabled")]
)
def test_the_upgrade_check_examines_what_a_plugin_declares_and_one_that_raises_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], kind: str, enabled_by: str
) -> None:
    (tmp_path / "declaring_drivers.py").write_text(DECLARING_DRIVERS)
    names = [f"{name}{kind.title()}" for name in ("Raising", "Wrong", "Declaring")]
    lines = [f"{name.lower()} = declaring_drivers:{name}" for name in names]
    install(tmp_path, monkeypatch, f"[watcher_sync.{kind}s]", *lines)
    sections = "".join(
        f"[{kind}_{number}]\ndriver = {name.lower()}\nkey_file = {tmp_path}/{number}\ntls = false\n"
        for number, name in enumerate(names)
    )
    for number in range(3):
        (tmp_path / str(number)).touch(mode=0o604)
    file = tmp_path / "ws.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n{enabled_by} = 0, 1, 2\n{sections}")
    file.chmod(0o600)
    conf = make_conf([f"--config-file={file}"], prog="test")
    assert find_insecure_transports(conf) == [f"[{kind}_2] tls ({file}): set it."]
    assert "".join(capfd.readouterr()) == ""
    assert [line.partition(" (mode")[0] for line in find_loose_files(conf)] == [
        f"{tmp_path}/{number}: [{kind}_{number}] key_file ({file}): every user can read it" for number in (1, 2)
    ]
    assert f"[{kind}_0] driver = raising{kind} fails and is left out here" in "".join(capfd.readouterr())


def test_a_handler_that_names_a_missing_method_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no_method.py").write_text("class H:\n    events = {'a.b': 'missing'}\n")
    install(tmp_path, monkeypatch, "[watcher_sync.handlers]", "half = no_method:H")
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    (failure,) = [each for each in load_handlers(conf).failures if each.plugin == "half"]
    assert failure.reason == "TypeError: handler 'half' has no method 'missing' for 'a.b'"


def test_the_upgrade_check_names_a_kind_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "[watcher_sync.entities]", "lost = a_module_that_moved:Lost")
    load_kinds()
    result = Checks(make_conf([f"--config-dir={tmp_path}"], prog="test")).extensions()
    why = "No module named 'a_module_that_moved'"
    assert (result.code, result.details) == (
        Code.FAILURE,
        f"watcher_sync.entities lost cannot be loaded: ModuleNotFoundError: {why}",
    )

# SPDX-License-Identifier: Apache-2.0
"""Extensions are loaded by their entry points, and one that fails stops no other."""

from __future__ import annotations

import pytest
from oslo_upgradecheck.upgradecheck import Code, Result

from tests.unit.test_plugins import install
from watcher_sync.assembly.process import make_conf
from watcher_sync.assembly.reconcile import make_evaluator
from watcher_sync.cmd.checks.upgrade import Checks
from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError, PluginConflict
from watcher_sync.extension import GROUP, Extension, gather, load_extensions

OURS = {"dcm", "federation", "kubernetes", "log", "openstack", "vnf", "watch", "webhooks"}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Have a distribution with more extensions: name of a module -> its text."""

    def install_all(**modules):
        for name, text in modules.items():
            (tmp_path / f"lunar_{name}.py").write_text(text)
        install(tmp_path, monkeypatch, f"[{GROUP}]", *(f"{name} = lunar_{name}:Lunar" for name in modules))
        load_extensions.cache_clear()

    yield install_all
    load_extensions.cache_clear()


def test_an_extension_that_cannot_be_loaded_is_logged_and_left_out(installed, caplog):
    sound = "from watcher_sync.extension import Extension\nclass Lunar(Extension): pass\n"
    installed(far="import a_missing_library\n", near="class Lunar: pass\n", full=sound, watch=sound)
    found = load_extensions()
    assert found.keys() == OURS | {"full"}
    messages = [record.getMessage() for record in caplog.records]
    assert [text for text in messages if "extension far cannot be loaded: ModuleNotFoundError" in text]
    assert [text for text in messages if "extension near is no subclass of watcher_sync.extension.Extension" in text]
    assert [text for text in messages if "extension watch is installed twice" in text]


def test_the_options_of_a_stranger_are_those_of_the_configuration(installed):
    installed(
        crescent="""
from oslo_config import cfg
from watcher_sync.extension import Extension

class Lunar(Extension):
    def options(self):
        return [("lunar", [cfg.StrOpt("phase")])]
"""
    )
    assert ("lunar", ["phase"]) in [(group, [o.dest for o in options]) for group, options in opts.own_opts()]


def test_only_a_wrong_configuration_ends_the_process():
    class Failing(Extension):
        """Its doors raise."""

        def options(self):
            raise ConfigError("[lunar] phase: wrong")

        def routes(self, api):
            raise SystemExit(3)

    extensions = {"failing": Failing(), **load_extensions()}
    with pytest.raises(ConfigError, match="phase"):
        gather(lambda extension: extension.options(), extensions)
    assert (
        gather(lambda extension: extension.routes(None) if extension is extensions["failing"] else [7], extensions)
        == [7] * 8
    )


def test_the_upgrade_check_runs_the_checks_of_strangers_and_one_that_raises_fails_alone(monkeypatch, tmp_path):
    class Lunar(Extension):
        """It has a check, and one that raises."""

        def upgrade_checks(self, examined):
            return [("Tides", lambda: 1 / 0), ("Phase", lambda: Result(Code.WARNING, f"waning, {examined.timeout} s"))]

    monkeypatch.setattr("watcher_sync.extension.load_extensions", lambda: {"lunar": Lunar()})
    file = tmp_path / "ws.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    checks = Checks(make_conf([f"--config-file={file}"], prog="test"))
    found = {title: check(checks) for title, check in checks._upgrade_checks if title in ("Tides", "Phase")}
    assert (found["Tides"].code, found["Phase"].details) == (Code.FAILURE, "waning, 10.0 s")
    assert "ZeroDivisionError" in found["Tides"].details


def test_a_second_evaluator_is_refused_and_both_are_named(monkeypatch):
    class One:
        """An evaluator."""

    class Other(One):
        """Another one."""

    def evaluating(*found):
        each = Extension()
        each.evaluators = lambda conf: found
        monkeypatch.setattr("watcher_sync.extension.load_extensions", lambda: {"lunar": each})
        return make_evaluator(None)

    assert evaluating() is None
    assert type(evaluating(One())) is One
    with pytest.raises(PluginConflict, match="One and Other"):
        evaluating(One(), Other())

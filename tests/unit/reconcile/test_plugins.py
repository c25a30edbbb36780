# SPDX-License-Identifier: Apache-2.0
"""Reconcilers come from entry points, and one that is broken costs only itself."""

from __future__ import annotations

import pytest
from oslo_config import cfg
from stevedore import _cache

from tests.unit.reconcile.conftest import StandIn
from watcher_sync.exceptions import ConfigError
from watcher_sync.reconcile.base import Reconciler
from watcher_sync.reconcile.plugins import load_reconcilers, make_reconciler


class WithOptions(StandIn):
    options = (cfg.StrOpt("flavour", default="plain"),)

    def __init__(self, conf, context):
        Reconciler.__init__(self, conf, context)


WithOptions.name = "with_options"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a distribution with entry points: name -> the module's text."""

    def install(**modules):
        lines = ["[watcher_sync.reconcilers]"]
        for name, text in modules.items():
            (tmp_path / f"installed_{name}.py").write_text(text)
            lines.append(f"{name} = installed_{name}:Plugin")
        info = tmp_path / "installed-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(tmp_path)
        # Entry points are remembered on disk by the state of sys.path, and in memory by namespace.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr("stevedore.extension.ExtensionManager.ENTRY_POINT_CACHE", {})
        monkeypatch.setattr("stevedore._cache._c", _cache.Cache())

    return install


def test_a_plugin_that_does_not_load_is_logged_and_the_others_work(installed, conf, caplog):
    installed(
        good="from tests.unit.reconcile.conftest import StandIn\n"
        "class Plugin(StandIn):\n    name = 'good'\n    def __init__(self, conf, context):\n        pass\n",
        absent="import no_such_module",
        bug="from tests.unit.reconcile.conftest import StandIn\n"
        "class Plugin(StandIn):\n    name = 'bug'\n    def __init__(self, conf, context):\n        1 / 0\n",
    )
    ours = [one for one in load_reconcilers(conf, None) if type(one).__module__.startswith("installed_")]
    assert [one.name for one in ours] == ["good"]
    assert "The reconciler absent cannot be loaded: ModuleNotFoundError" in caplog.text
    assert "The reconciler bug cannot be loaded: ZeroDivisionError" in caplog.text


def test_a_reconciler_that_refuses_the_configuration_stops_the_start(installed, conf):
    installed(
        strict="from tests.unit.reconcile.conftest import StandIn\n"
        "from watcher_sync.exceptions import ConfigError\n"
        "class Plugin(StandIn):\n    name = 'strict'\n    def __init__(self, conf, context):\n"
        "        raise ConfigError('[reconciler_strict] flavour: no')\n"
    )
    with pytest.raises(ConfigError, match="flavour: no"):
        load_reconcilers(conf, None)


def test_a_reconcilers_options_are_in_a_group_of_its_name(conf):
    made = make_reconciler("with_options", WithOptions, conf, None)
    assert (made.conf.reconciler_with_options.flavour, made.context) == ("plain", None)


@pytest.mark.parametrize(
    ("name", "plugin", "why"),
    [
        ("standin", object, "is not a reconciler class"),
        ("standin", "text", "is not a reconciler class"),
        ("other", StandIn, "StandIn calls itself 'standin'"),
    ],
)
def test_what_is_no_reconciler_of_this_name_is_refused(conf, name, plugin, why):
    with pytest.raises(TypeError, match=why):
        make_reconciler(name, plugin, conf, None)

# SPDX-License-Identifier: Apache-2.0
"""Service types of plugins: added, extended, refused where they disagree, shown where they fail."""

from __future__ import annotations

import sys
import textwrap

import pytest
from oslo_config import cfg

from tests.providers import Player, event
from watcher_sync.dispatch import load_handlers
from watcher_sync.exceptions import PluginConflict
from watcher_sync.extensions.dcm.handler.service_types import BUILTIN, ServiceType, ServiceTypes
from watcher_sync.testing.dcm import publisher

GPU = ServiceType(name="gpu", statuses=frozenset({"IDLE", "BUSY"}), aliases={"FREE": "IDLE"})
MORE = ServiceType(name="vm", statuses=frozenset({"MIGRATING"}), aliases={"ON": "RUNNING"}, extends=True)


def test_the_built_in_service_types_are_those_of_the_contract():
    services = ServiceTypes()
    assert services.names() == sorted([*publisher.STATUSES, "cost", "three_tier_app_demo"])
    for name, statuses in publisher.STATUSES.items():
        assert set(services.statuses(name)) - {"UNKNOWN"} == set(statuses) - {"UNKNOWN"}


def test_a_plugin_adds_a_service_type():
    player = Player(services=ServiceTypes([("acme", GPU)]))
    assert player.told(event(reported="free", service_type="gpu", sequence=1, channel="dcm.gpu")).status == "IDLE"


@pytest.mark.parametrize(("told", "status"), [("migrating", "MIGRATING"), ("On", "RUNNING"), ("Stopped", "STOPPED")])
def test_a_plugin_extends_a_service_type(told, status):
    assert Player(services=ServiceTypes([("acme", MORE)])).told(event(reported=told, sequence=1)).status == status


@pytest.mark.parametrize(
    "declared",
    [
        [("acme", GPU), ("umbrella", GPU)],
        [("umbrella", ServiceType(name="vm")), ("acme", GPU)],
        [("acme", MORE), ("umbrella", ServiceType(name="vm", aliases={"On": "PAUSED"}, extends=True))],
        [("umbrella", ServiceType(name="vm", aliases={"running": "PAUSED"}, extends=True))],
    ],
)
def test_two_that_disagree_are_refused_in_either_order_and_both_are_named(declared):
    for order in (declared, declared[::-1]):
        with pytest.raises(PluginConflict) as refused:
            ServiceTypes(order)
        assert "umbrella" in str(refused.value)
        assert ("acme" if len(declared) == 2 and declared[0][0] == "acme" else "watcher_sync") in str(refused.value)


def test_two_that_agree_on_a_word_are_not_refused():
    ServiceTypes([("acme", MORE), ("umbrella", MORE)])


def test_an_extension_of_an_undeclared_service_type_is_refused():
    with pytest.raises(PluginConflict, match="'acme' extends the service type 'gpu', which no package declares"):
        ServiceTypes([("acme", ServiceType(name="gpu", extends=True))])


def test_every_alias_means_a_known_status():
    for service in BUILTIN:
        assert set(service.aliases.values()) <= service.statuses


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """install({entry point: expression}): a package with these service types."""

    def install(name, entries):
        module = name.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(
            "from watcher_sync.extensions.dcm.handler.service_types import ServiceType\n"
            + "".join(f"{attribute} = {expression}\n" for attribute, expression in entries.items())
        )
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = "\n".join(f"{attribute} = {module}:{attribute}" for attribute in entries)
        (info / "entry_points.txt").write_text(textwrap.dedent("[watcher_sync.service_types]\n") + points + "\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("stevedore._cache._c._disable_caching", True)
    monkeypatch.setattr("stevedore._cache._c._internal", {})
    monkeypatch.setattr("stevedore.extension.ExtensionManager.ENTRY_POINT_CACHE", {})
    return install


def conf():
    made = cfg.ConfigOpts()
    made([], default_config_files=[], default_config_dirs=[])
    return made


def test_an_installed_package_adds_a_service_type(installed):
    installed("acme-gpu", {"gpu": "ServiceType(name='gpu', statuses=frozenset({'IDLE'}))"})
    (handler,) = {e.call.__self__ for e in load_handlers(conf()).table() if e.plugin == "dcm" and e.call is not None}
    assert "gpu" in handler._services.names()


def test_two_packages_that_declare_the_same_service_type_are_refused_at_the_start_and_named(installed):
    installed("acme-gpu", {"gpu": "ServiceType(name='gpu')"})
    installed("umbrella-gpu", {"gpu2": "ServiceType(name='gpu')"})
    with pytest.raises(PluginConflict, match=r"gpu \(acme_gpu\).*gpu2 \(umbrella_gpu\).*service type 'gpu'"):
        load_handlers(conf())


@pytest.mark.parametrize("expression", ["1 / 0", "'no service type'"])
def test_a_plugin_that_fails_is_shown_and_costs_only_itself(installed, expression):
    installed("broken-gpu", {"gpu": expression})
    dispatcher = load_handlers(conf())
    (failure,) = [failure for failure in dispatcher.failures if "gpu" in failure.plugin]
    assert failure.plugin == "watcher_sync.service_types: gpu"
    assert dispatcher.find("dcm.status.vm").plugin == "dcm"


@pytest.mark.parametrize("change", [str.lower, str.upper, str.title])
@pytest.mark.parametrize("service", [each for each in BUILTIN if not each.subjects], ids=lambda each: each.name)
def test_each_status_of_each_built_in_service_type_is_stored(service, change):
    for sequence, status in enumerate(sorted({*service.statuses, *service.aliases} - {"DELETED"}), 1):
        told = event(
            reported=change(status), service_type=service.name, sequence=sequence, channel=f"dcm.{service.name}"
        )
        assert Player().told(told).status == service.aliases.get(status, status)

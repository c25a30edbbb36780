# SPDX-License-Identifier: Apache-2.0
"""The file of static capacities: what it may say, what it says when it is wrong, and when it is read again."""

from __future__ import annotations

import os

import pytest
from oslo_config import cfg

from watcher_sync.extensions.openstack.capacity import static
from watcher_sync.extensions.openstack.capacity.providers import make_provider
from watcher_sync.reconcile.capacity_provider import CapacityError, ResourceInventory

GOOD = """
hosts:
  compute-0:
    vcpus: 32
    memory_mb: 131072
    reserved_memory_mb: 4096
    vcpu_ratio: 4
    inventories:
      CUSTOM_FPGA: {total: 2, reserved: 0, allocation_ratio: 1.0}
  compute-1: {disk_gb: 0}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "capacity.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def provider(path, monkeypatch):
    monkeypatch.setattr(static, "_CHECK_INTERVAL_SECONDS", 0.0)
    conf = cfg.ConfigOpts()
    conf.register_opts(static.StaticProvider.options, group="capacity_provider_static")
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("file", str(path), group="capacity_provider_static")
    return make_provider("static", static.StaticProvider, conf)


def read(provider):
    return {one.host: one for one in provider.capacities(0)}


def test_the_file_reports_hosts_with_the_fields_that_it_names(provider):
    found = read(provider)
    first = found["compute-0"]
    assert (first.vcpus, first.memory_mb, first.reserved_memory_mb, first.vcpu_ratio) == (32, 131072, 4096, 4.0)
    assert (first.disk_gb, first.reserved_vcpus, first.disk_ratio) == (None, None, None)
    assert first.inventories == {"CUSTOM_FPGA": ResourceInventory(total=2, reserved=0, allocation_ratio=1.0)}
    assert found["compute-1"].disk_gb == 0


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("hosts:\n  compute-0: {vcpus: many}", "host compute-0: vcpus: Expected `int | null`, got `str`"),
        ("hosts:\n  compute-0: {vcpus: true}", "host compute-0: vcpus: Expected `int | null`, got `bool`"),
        ("hosts:\n  compute-0: {vcpus: 1.5}", "host compute-0: vcpus: Expected `int | null`, got `float`"),
        ("hosts:\n  compute-0: {vcpus: -1}", "host compute-0: vcpus: -1 is not 0 to 9007199254740992"),
        ("hosts:\n  compute-0: {vcpu_ratio: 0}", "host compute-0: vcpu_ratio: 0.0 is not above 0"),
        ("hosts:\n  compute-0: {vcpu_ratio: .nan}", "host compute-0: vcpu_ratio: nan is not above 0"),
        ("hosts:\n  compute-0: {cores: 4}", "host compute-0: Object contains unknown field `cores`"),
        (
            "hosts:\n  compute-0: {inventories: {CUSTOM_X: {total: few}}}",
            "host compute-0: inventories[...].total: Expected `int | null`, got `str`",
        ),
        (
            "hosts:\n  compute-0: {inventories: {CUSTOM_X: {total: -2}}}",
            "host compute-0: inventories.CUSTOM_X.total: -2 is not 0 to 9007199254740992",
        ),
        ("hosts:\n  compute-0:", "host compute-0: it needs a mapping of fields"),
        ("hosts:\n  7: {vcpus: 1}", "hosts: 7 is no name of a host; put a number into quotation marks"),
        ("hosts:\n  a: {vcpus: 1}\n  a: {vcpus: 2}", "'a' is there twice in"),
        ("hosts: []", "the file has one key, hosts: a mapping of names to capacities"),
        ("machines: {}", "the file has one key, hosts: a mapping of names to capacities"),
        ("", "the file has one key, hosts: a mapping of names to capacities"),
        ("hosts: {a: {vcpus: 1}", "while parsing a flow mapping"),
    ],
)
def test_an_error_names_the_file_the_host_and_the_field(provider, path, text, wrong):
    path.write_text(text)
    with pytest.raises(CapacityError) as caught:
        read(provider)
    assert str(caught.value).startswith(f"{path}: {wrong}")


def test_a_file_that_is_away_is_an_error(provider, path):
    path.unlink()
    with pytest.raises(CapacityError, match="cannot be read"):
        read(provider)


def test_the_file_is_wanted_again_when_it_changes_and_only_once(provider, path):
    assert not provider.has_changed()
    read(provider)
    assert not provider.has_changed()
    path.write_text("hosts: {}\n# another size")
    assert provider.has_changed()
    read(provider)
    assert not provider.has_changed()


def test_a_file_that_became_invalid_is_read_once_and_not_again_and_again(provider, path):
    read(provider)
    path.write_text("hosts: [")
    assert provider.has_changed()
    with pytest.raises(CapacityError):
        read(provider)
    assert not provider.has_changed()


def test_a_file_of_another_time_is_another_file(provider, path):
    read(provider)
    os.utime(path, ns=(1, 1))
    assert provider.has_changed()


def test_a_reload_reads_the_file_again(provider):
    read(provider)
    provider.reload()
    assert provider.has_changed()
    read(provider)
    assert not provider.has_changed()

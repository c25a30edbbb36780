# SPDX-License-Identifier: Apache-2.0
"""Custom objects of a cluster in the API: those of the own project, and their status as instances."""

from __future__ import annotations

import json

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.api.conftest import conf, store  # noqa: F401 - fixtures
from tests.unit.security.callers import OTHER, OWN, Api, configured
from watcher_sync.commit.batch import Batch
from watcher_sync.conf import opts
from watcher_sync.dispatch import load_handlers
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.kubernetes.conf.custom_kinds import KINDS


def kinds(conf, *entries):  # noqa: F811
    """The configuration with a source that has these entries."""
    configured(conf, {"own": OWN, "other": OTHER})
    opts.register_source(conf, "k8s", [KINDS])
    conf.set_override("kinds", list(entries), group="source_k8s")
    return conf


@pytest.fixture
def api(conf, store):  # noqa: F811
    entry = "a.example/v1/Machine state=.status.phase scope=.spec.tenant token=.spec.token ip=.status.ip"
    with AuthTokenFixture() as fixture:
        yield Api(kinds(conf, entry), store, fixture)


def machine(number, tenant):
    document = {
        "metadata": {"uid": f"m-{tenant}", "name": f"machine-{tenant}", "resourceVersion": str(number)},
        "spec": {"tenant": tenant, "token": "s3cret"},
        "status": {"phase": "Running", "ip": "10.0.0.1"},
    }
    return Event(
        id=str(number), type="kubernetes.machine.a.example.added", source="k8s", origin="edge", sequence=(1, number),
        data=json.dumps(document).encode(),
    )  # fmt: skip


def test_a_project_sees_the_custom_objects_that_their_scope_gives_it(api):
    api.cycle.run(Batch(events=[machine(1, "own"), machine(2, "other"), machine(3, "unmapped")]))
    found = api("reader", "GET", "/v1/custom_objects", params={"state": "Running"}).json["custom_objects"]
    assert [(each["id"], each["kind"], each["properties"]["ip"]) for each in found] == [
        ("m-own", "Machine", "10.0.0.1")
    ]
    assert api("stranger", "GET", "/v1/custom_objects/m-own").status_code == 404
    everything = api("system_reader", "GET", "/v1/custom_objects").json["custom_objects"]
    assert {each["id"] for each in everything} == {"m-own", "m-other", "m-unmapped"}


def test_the_status_of_a_custom_object_has_its_kind_and_no_secret(api):
    api.cycle.run(Batch(events=[machine(1, "own")]))
    status = api("reader", "GET", "/v1/instance/m-own/status")
    assert status.status_code == 200, status.text
    assert (status.json["ready"], status.json["request"]["kind"]) == (True, "custom_object")
    (document,) = status.json["resourcesStatus"]
    assert document["GVK"] == {"Group": "a.example", "Version": "", "Kind": "Machine"}
    assert document["status"] == {"state": "Running", "properties": {"token": "***", "ip": "10.0.0.1"}}
    assert api("stranger", "GET", "/v1/instance/m-own/status").status_code == 404


def test_an_entry_that_cannot_work_is_named_wherever_it_is_read(conf):  # noqa: F811
    with pytest.raises(
        ConfigError, match=r"^\[source_k8s\] kinds: 'Machine' is neither group/Kind nor group/version/Kind$"
    ):
        load_handlers(kinds(conf, "Machine"))

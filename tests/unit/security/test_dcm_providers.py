# SPDX-License-Identifier: Apache-2.0
"""Who may speak of which instance and provider of DCM, by default."""

from __future__ import annotations

import pytest

from tests.providers import Player, event
from tests.unit.api.conftest import application, client, conf, store  # noqa: F401 - fixtures
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.extensions.dcm.handler.handler import OPTIONS, DcmHandler
from watcher_sync.model.changes import Outcome
from watcher_sync.storage.stored.parking import ParkedEvents
from watcher_sync.testing.dcm import publisher as dcm

OTHER = dcm.status(reported="DELETED", provider="acm", event_id="x")
ENFORCED = {"source_policy": "enforce", "sources": {"kubevirt-1": "dcm/providers/kubevirt-1 agent-1 account-1"}}


@pytest.fixture
def player():
    return Player()


def place(provider: str, service_type: str = "vm") -> str:
    return f"dcm.providers.{provider}.{service_type}"


# Status events


def test_a_provider_cannot_report_on_another_ones_instance(player):
    player.row()
    player.row("i-2", provider_name="acm")
    own = event(dcm.status("i-2", provider="acm", event_id="own"), sequence=2)
    assert player.play(event(sequence=1), own, event(OTHER, sequence=3)) == [
        *[Outcome.APPLIED] * 2,
        Outcome.QUARANTINED,
    ]
    assert player.get().status == "RUNNING"
    assert player.reasons[0].startswith("unauthorised: source: 'dcm/providers/acm' is bound to the provider 'acm'")


@pytest.mark.parametrize("channel", [place("acm"), dcm.legacy_name("acm", "vm", "i-1")])
def test_the_account_in_the_nats_subject_counts_whatever_the_source_claims(channel):
    player = Player(**ENFORCED)
    player.row()
    assert player.play(event(sequence=1, channel=channel)) == [Outcome.QUARANTINED]
    assert player.reasons[0].startswith("unauthorised: source: 'acm' is none of those")
    assert player.get().status is None


MALFORMED = [
    "dcm.providers.", "dcm.providers.x", "dcm.providers.x.", "dcm.providers..vm", "dcm.providers.x.vm.more",
    "dcm.providers.x.a.b.c", "dcm.providers.x.vm.instances..status", "dcm.providers.x.y.vm.instances.i-1.status",
]  # fmt: skip


@pytest.mark.parametrize("channel", MALFORMED)
@pytest.mark.parametrize("provider", ["kubevirt-1", "x", "x.y"])
def test_a_nats_subject_that_hides_its_provider_is_refused(player, channel, provider):
    player.row(provider_name=provider)
    document = dcm.status(provider=provider)
    assert player.play(event(document, sequence=1, channel=channel)) == [Outcome.QUARANTINED]
    assert player.reasons[0].startswith(f"unauthorised: NATS subject: {channel!r} is neither"), player.reasons
    assert player.get().status is None


@pytest.mark.parametrize("channel", ["dcm.providers.x.vm.health", "dcm.providers.x"])
def test_a_health_event_of_a_nats_subject_that_hides_its_provider_is_refused(channel):
    player = Player()
    document = {**dcm.health(), "source": "dcm/providers/kubevirt-1"}
    told = [event({**document, "source": f"dcm/providers/{p}", "id": p}, sequence=n, channel=channel)
            for n, p in enumerate(("kubevirt-1", "x"), 1)]  # fmt: skip
    assert player.play(*told) == [Outcome.QUARANTINED] * 2
    assert player.model.get("provider", "kubevirt-1/vm") is None


@pytest.mark.parametrize("source", ["dcm/providers/kubevirt-1", "kubevirt-1.localhost"])
@pytest.mark.parametrize("channel", [place("kubevirt-1"), dcm.legacy_name("kubevirt-1", "vm", "i-1"), "dcm.vm"])
def test_a_source_that_agrees_with_the_nats_subject_is_applied(player, source, channel):
    player.row()
    honest = event({**dcm.status(), "source": source, "type": "com.example"}, sequence=1, channel=channel)
    entry = player.dispatcher.find("dcm.status.vm")
    assert list(entry.call(honest, player.model.snapshot()))


def test_the_service_type_comes_from_a_subject_that_names_the_provider(player):
    player.row(service_type="network")
    document = dcm.status(reported="READY", service_type="vm")
    assert player.play(event(document, sequence=1, channel=place("kubevirt-1", "network"))) == [Outcome.APPLIED]


def test_the_older_form_as_nats_subject_names_the_instance(player):
    player.row("i-9")
    document = dcm.status()
    del document["data"]["id"]
    document["subject"] = "dcm.vm"
    told = event(document, sequence=1, channel=dcm.legacy_name("kubevirt-1", "vm", "i-9"))
    assert player.play(told) == [Outcome.APPLIED]
    assert player.get("i-9").status == "RUNNING"


def test_an_event_about_an_instance_without_a_provider_waits_until_the_api_names_it():
    player = Player(**ENFORCED)
    player.row(provider_name=None)
    assert player.play(event(OTHER, sequence=1), event(sequence=2)) == [Outcome.PARKED] * 2
    assert player.get().status is None
    player.row(instance_name="web", provider_name=None)
    assert (player.get().status, player.parked()) == (None, 2)
    player.row(provider_name="kubevirt-1")
    assert (player.get().status, player.parked()) == ("RUNNING", 0)
    assert len(player.reasons) == 1, "the other provider's event is in quarantine"


def test_an_event_of_an_instance_without_a_provider_is_ignored_where_unknown_instances_are():
    player = Player(unknown_instance="ignore", **ENFORCED)
    player.row(provider_name=None)
    assert player.play(event(sequence=1)) == [Outcome.IGNORED]
    player.row()
    assert player.play(event(sequence=1)) == [Outcome.APPLIED]


def test_an_instance_that_an_event_made_belongs_to_that_provider():
    player = Player(unknown_instance="create")
    own = event(dcm.status("i-2", provider="acm", event_id="own"), sequence=2)
    assert player.play(event(sequence=1), own, event(OTHER, sequence=3)) == [
        *[Outcome.APPLIED] * 2,
        Outcome.QUARANTINED,
    ]
    assert (player.get().provider_name, player.get().status) == ("kubevirt-1", "RUNNING")


@pytest.fixture
def enforcing(conf):  # noqa: F811
    conf.register_opts(OPTIONS, group="handler_dcm")
    for name, value in ENFORCED.items():
        conf.set_override(name, value, group="handler_dcm")
    return conf.handler_dcm


def test_waiting_events_stay_in_the_database_through_writes_that_name_no_provider(enforcing, client, store):  # noqa: F811
    path = "/v1/service_type_instances/i-1"
    headers = {"Content-Type": "application/cloudevents+json"}
    row = {"service_type": "vm", "instance_name": "one"}
    assert client.simulate_put(path, json=row).status_code == 201
    answer = client.simulate_post("/v1/events", body=dcm.body_of(dcm.status()), headers=headers)
    assert answer.json["events"][0]["outcome"] == "parked"
    engine = CommitCycle(store, store.load(), Dispatcher([("dcm", DcmHandler(enforcing))]))
    for name in ("two", "three"):
        assert client.simulate_put(path, json={**row, "instance_name": name}).status_code == 200
        engine.catch_up()
        assert sum(ParkedEvents(store).awaited().values()) == 1
    assert client.simulate_put(path, json={**row, "provider_name": "kubevirt-1"}).status_code == 200
    engine.catch_up()
    assert client.simulate_get(path).json["status"] == "RUNNING"
    assert not ParkedEvents(store).awaited()


# Health events


def test_an_agent_speaks_for_the_provider_that_its_source_names(player):
    assert player.play(event(dcm.health(), sequence=1, channel="dcm.agents.health")) == [Outcome.APPLIED]


@pytest.mark.parametrize("source", ["dcm/providers/acm", "acm.localhost", "agent-2"])
def test_an_agent_does_not_speak_for_another_provider(source):
    player = Player(**ENFORCED)
    told = event({**dcm.health(), "source": source}, sequence=1, channel="dcm.agents.health")
    assert player.play(told) == [Outcome.QUARANTINED]
    assert player.model.get("provider", "kubevirt-1/vm") is None
    assert player.reasons == [
        f"unauthorised: source: {source!r} is none of those that [handler_dcm] sources lists for 'kubevirt-1'"
    ]


def test_an_agent_with_a_name_of_its_own_speaks_for_the_providers_that_the_option_lists():
    player = Player(**ENFORCED)
    one, two = (event({**dcm.health(), "source": f"agent-{n}"}, sequence=n) for n in (1, 2))
    assert player.play(one, two) == [Outcome.APPLIED, Outcome.QUARANTINED]


@pytest.mark.parametrize(
    ("source", "provider", "outcome"),
    [
        ("agent-1", "kubevirt-1", Outcome.APPLIED),
        ("dcm/providers/kubevirt-1", "kubevirt-1", Outcome.APPLIED),
        ("agent-1", "acm", Outcome.QUARANTINED),
        ("dcm/providers/acm", "kubevirt-1", Outcome.APPLIED),
        ("dcm/providers/acm", "acm", Outcome.QUARANTINED),
    ],
)
def test_the_nats_subject_says_whose_agent_it_is(source, provider, outcome):
    player = Player(**ENFORCED)
    document = {**dcm.health(provider=provider), "source": source}
    assert player.play(event(document, sequence=1, channel=place("account-1", "health"))) == [outcome]


@pytest.mark.parametrize(("policy", "warnings"), [("warn", 1), ("off", 0)])
def test_the_other_policies_apply_what_a_stranger_says(policy, warnings, caplog):
    player = Player(source_policy=policy)
    player.row()
    stranger = {**dcm.health(), "source": "agent-1"}
    assert player.play(event(OTHER, sequence=1)) == [Outcome.APPLIED]
    assert player.play(event({**OTHER, "id": "y"}, sequence=2)) == [Outcome.APPLIED]
    assert player.play(event(stranger, sequence=3)) == [Outcome.APPLIED]
    said = [r.getMessage() for r in caplog.records if "source_policy" in r.getMessage()]
    assert len(said) == 2 * warnings

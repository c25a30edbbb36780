# SPDX-License-Identifier: Apache-2.0
"""DCM's contract, a sentence a test: who, what and where an event tells, and what comes of it."""

from __future__ import annotations

import pytest

from tests.providers import Player, event, seconds
from watcher_sync.model.changes import Outcome
from watcher_sync.testing.dcm import publisher as dcm


@pytest.fixture
def player():
    return Player()


def test_the_instance_is_the_one_in_data_id_whatever_the_subject_says(player):
    player.row("other")
    assert player.told(event({**dcm.status(), "subject": "other"}, sequence=1)).status
    assert player.get("other").status is None


def test_without_data_id_the_instance_is_the_subject(player):
    document = dcm.status()
    del document["data"]["id"]
    assert player.told(event(document, sequence=1)).status == "RUNNING"


def test_an_empty_data_id_is_none(player):
    assert player.told(event({**dcm.status(), "data": {"id": "", "status": "RUNNING"}}, sequence=1)).status == "RUNNING"


@pytest.mark.parametrize("field", ["subject", "type"])
def test_without_data_id_the_older_form_names_the_instance(player, field):
    document = {**dcm.status(), "subject": "dcm.vm", field: dcm.legacy_name("kubevirt-1", "vm", "i-1")}
    del document["data"]["id"]
    assert player.told(event(document, sequence=1)).status == "RUNNING"


def test_an_id_with_dots_comes_whole_out_of_the_older_form(player):
    document = {**dcm.status(provider="kube.virt"), "subject": dcm.legacy_name("kube.virt", "vm", "a.b.status.c")}
    del document["data"]["id"]
    player.row("a.b.status.c", provider_name="kube.virt")
    assert player.play(event(document, sequence=1)) == [Outcome.APPLIED]
    assert player.get("a.b.status.c").status == "RUNNING"


def test_a_subject_of_dcm_names_no_instance(player):
    document = {**dcm.status(), "subject": "dcm.vm"}
    del document["data"]["id"]
    assert player.play(event(document, sequence=1)) == [Outcome.QUARANTINED]
    assert player.reasons[0].startswith("data.id: missing")


@pytest.mark.parametrize("service_type", sorted(dcm.STATUSES))
def test_the_service_type_is_that_of_the_nats_subject(player, service_type):
    player = Player(unknown_instance="create")
    document = dcm.status(reported="DELETED", service_type="vm")
    assert player.play(event(document, sequence=1, channel=f"dcm.{service_type}")) == [Outcome.APPLIED]
    assert player.get().service_type == service_type


@pytest.mark.parametrize(
    "document",
    [dcm.status(service_type="network", reported="READY"),
     {**dcm.status(reported="READY"), "type": dcm.legacy_name("kubevirt-1", "network", "i-1")},
     {**dcm.status(reported="READY"), "type": "dcm.network"},
     {**dcm.status(reported="READY"), "type": "dcm.providers.status", "subject": "dcm.network"}],
)  # fmt: skip
def test_without_a_nats_subject_the_service_type_is_that_of_the_type_or_of_the_subject(document):
    player = Player(unknown_instance="create")
    assert player.play(event(document)) == [Outcome.APPLIED], player.reasons
    assert player.get().service_type == "network"


@pytest.mark.parametrize(
    ("source", "provider"),
    [("dcm/providers/acm", "acm"), ("/dcm/providers/acm/", "acm"), ("dcm/providers/a/b", "a/b"),
     ("kubevirt.localhost", "kubevirt"), ("somebody", "somebody")],
)  # fmt: skip
def test_the_provider_is_that_of_the_source(source, provider):
    player = Player(unknown_instance="create")
    player.play(event({**dcm.status(), "source": source}, sequence=1))
    assert player.get().provider_name == provider


@pytest.mark.parametrize("publisher", dcm.PUBLISHERS, ids=lambda p: p.name)
def test_what_every_publisher_of_the_field_says_is_understood(player, publisher):
    player.row(provider_name="kubevirt-1")
    document = publisher.event(
        "i-1", "Running" if publisher.raw_phases else "RUNNING", service_type="vm", provider="kubevirt-1",
        event_id="e", time=seconds(1.5), message="It runs.", output_spec={"ip": "10.0.0.1"},
    )  # fmt: skip
    assert player.play(event(document, sequence=1)) == [Outcome.APPLIED], player.reasons
    row = player.get()
    assert (row.status, row.output_spec) == ("RUNNING", {"ip": "10.0.0.1"})
    assert row.status_message == (None if publisher.no_message else "It runs.")
    assert row.status_updated_at == publisher.time(seconds(1.5))


@pytest.mark.parametrize(("phase", "status"), [*dcm.KUBEVIRT_PHASES.items(), ("Terminating", "DELETING")])
def test_a_raw_phase_of_kubevirt_is_the_status_that_it_means(player, phase, status):
    assert player.told(event(reported=phase, sequence=1)).status == status


@pytest.mark.parametrize("told", dcm.ACM_STATUSES)
def test_what_the_provider_of_clusters_says_is_a_status(player, told):
    row = player.told(event(reported=told, service_type="cluster", sequence=1, channel="dcm.cluster"))
    assert row.status == told


@pytest.mark.parametrize(("service_type", "told"), [(s, told) for s, all_ in dcm.STATUSES.items() for told in all_])
def test_every_status_of_the_contract_is_known_in_any_case_and_stored_in_upper_case(player, service_type, told):
    for sequence, text in enumerate((told, told.lower(), told.title()), start=1):
        made = event(reported=text, service_type=service_type, sequence=sequence, channel=f"dcm.{service_type}")
        row = player.told(made)
        assert row.status == told


def test_an_unknown_status_goes_to_quarantine_and_the_reason_names_it(player):
    player.row()
    assert player.play(event(reported="LEVITATING", sequence=1)) == [Outcome.QUARANTINED]
    assert player.reasons[0].startswith("data.status: 'LEVITATING' is no status of vm")


def test_a_status_of_another_service_type_is_unknown(player):
    player.row(service_type="network")
    assert player.play(event(reported="RUNNING", sequence=1, channel="dcm.network")) == [Outcome.QUARANTINED]


def test_an_unknown_status_is_stored_in_upper_case_where_the_policy_says_so():
    assert Player(unknown_status="store").told(event(reported="levitating", sequence=1)).status == "LEVITATING"


def test_an_unknown_service_type_follows_the_same_policy(player):
    gpu = event(service_type="gpu", sequence=1, channel="dcm.gpu")
    assert player.play(gpu) == [Outcome.QUARANTINED]
    assert player.reasons[0].startswith("type: 'gpu' is no known service type; there are cluster, container,")
    assert Player(unknown_status="store").told(gpu).status == "RUNNING"


def test_an_empty_or_missing_message_clears_the_old_one(player):
    assert player.told(event(message="no image", reported="FAILED", sequence=1)).status_message == "no image"
    assert player.told(event(message="", sequence=2)).status_message is None
    assert player.told(event(message="slow", sequence=3)).status_message == "slow"
    assert player.told(event(message=None, sequence=4)).status_message is None


def test_an_output_that_is_left_out_stays_and_null_clears_it(player):
    assert player.told(event(output_spec={"ip": "a"}, sequence=1)).output_spec == {"ip": "a"}
    assert player.told(event(sequence=2)).output_spec == {"ip": "a"}
    document = dcm.status()
    document["data"]["output_spec"] = None
    assert player.told(event(document, sequence=3)).output_spec is None


def test_deleted_is_a_status_and_the_row_stays(player):
    assert player.told(event(reported="DELETED", sequence=1)).status == "DELETED"


def test_an_event_writes_nothing_that_the_api_wrote(player):
    player.row(instance_name="web", spec={"size": 1})
    row = player.told(event(sequence=1))
    assert (row.instance_name, row.spec, row.provider_name, row.service_type) == (
        "web",
        {"size": 1},
        "kubevirt-1",
        "vm",
    )


def test_what_the_api_writes_leaves_the_status_alone(player):
    player.told(event(sequence=5))
    player.row(instance_name="renamed")
    row = player.get()
    assert (row.instance_name, row.status) == ("renamed", "RUNNING")
    assert player.play(event(reported="STOPPED", sequence=4)) == [Outcome.STALE]


def test_the_same_event_twice_is_a_duplicate(player):
    player.told(event(sequence=1))
    assert player.play(event(sequence=1)) == [Outcome.DUPLICATE]


def test_an_event_about_an_unknown_instance_waits_and_is_applied_as_soon_as_the_row_is_made(player):
    assert player.play(event(sequence=1), event(sequence=2, reported="STOPPED")) == [Outcome.PARKED] * 2
    player.row()
    assert (player.get().status, player.parked()) == ("STOPPED", 0)


def test_an_event_about_an_unknown_instance_is_ignored_where_the_policy_says_so():
    player = Player(unknown_instance="ignore")
    assert player.play(event(sequence=1)) == [Outcome.IGNORED]
    player.row()
    assert player.get().status is None
    assert player.play(event(sequence=2)) == [Outcome.APPLIED]


def test_an_event_about_an_unknown_instance_makes_it_if_policy_says_so_and_the_api_wins_later():
    sources = {"kubevirt-1": "dcm/providers/kubevirt-1"}
    player = Player(unknown_instance="create", source_policy="enforce", sources=sources)
    assert player.play(event(sequence=1)) == [Outcome.APPLIED]
    row = player.get()
    assert (row.service_type, row.provider_name, row.status) == ("vm", "kubevirt-1", "RUNNING")
    player.row(provider_name="other", instance_name="web")
    assert (player.get().provider_name, player.get().status) == ("other", "RUNNING")
    assert player.play(event(sequence=2)) == [Outcome.QUARANTINED]
    assert player.get().provider_name == "other"


@pytest.mark.parametrize("policy", ["off", "warn", "bind"])
def test_a_row_without_a_provider_is_anybodys_where_the_policy_is_not_enforced(policy):
    player = Player(source_policy=policy)
    player.row(provider_name=None)
    assert player.play(event(sequence=1)) == [Outcome.APPLIED]


def test_a_foreign_provider_is_applied_with_one_warning_a_minute_where_the_policy_says_so(caplog):
    clock = [0.0]
    player = Player(source_policy="warn")
    player.handler._authorship._monotonic = lambda: clock[0]
    player.row(provider_name="acm")
    for sequence, now in enumerate((0, 1, 59, 61), start=1):
        clock[0] = now
        assert player.play(event(sequence=sequence)) == [Outcome.APPLIED]
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 2
    assert warnings[0].startswith("source: 'dcm/providers/kubevirt-1' is none of those")


def test_a_foreign_provider_is_not_spoken_of_where_the_policy_is_off(caplog):
    player = Player(source_policy="off")
    player.row(provider_name="acm")
    assert player.play(event(sequence=1)) == [Outcome.APPLIED]
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


@pytest.mark.parametrize("label", sorted(dcm.malformed()))
def test_malformed_events_go_to_quarantine_and_the_reason_names_the_field(player, label):
    body, needle = dcm.malformed()[label]
    player.row("i-bad")
    (outcome,) = player.play(event(body, sequence=1))
    assert outcome is Outcome.QUARANTINED
    assert player.reasons[0]
    assert needle.lower() in player.reasons[0].lower(), player.reasons


@pytest.mark.parametrize("sequence", [(-1, 1), (10**17, 1), (1, -1), (1, 10**20)])
def test_a_place_in_a_stream_that_text_cannot_put_in_order_is_refused(player, sequence):
    player.row()
    assert player.play(event(sequence=sequence)) == [Outcome.QUARANTINED]
    assert player.reasons[0].startswith("sequence:")


@pytest.mark.parametrize("type_", ["dcm.agent.registered", "dcm.request.create"])
def test_what_agents_and_the_control_plane_say_to_each_other_is_ignored(player, type_):
    assert player.play(event({**dcm.status(), "type": type_}, sequence=1)) == [Outcome.IGNORED]

# SPDX-License-Identifier: Apache-2.0
"""``source_policy = bind``: the first source that reports on a provider's instances is the provider's."""

from __future__ import annotations

import datetime
import itertools
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers import Player, event
from watcher_sync.extensions.dcm.handler.service_types import ServiceType, ServiceTypes
from watcher_sync.model.changes import Delete, Outcome, absent
from watcher_sync.testing.dcm import publisher as dcm

KUBEVIRT, ACM = "kubevirt.localhost", "dcm/providers/acm"


@pytest.fixture
def player():
    player = Player()
    player.row("vm-1", provider_name="kubevirt-sp")
    player.row("vm-2", provider_name="kubevirt-sp")
    player.row("cl-1", provider_name="acm-sp")
    return player


_numbers = itertools.count(1)


def said(source, instance_id, reported="RUNNING", **more):
    number = next(_numbers)
    at = dcm.NOON + datetime.timedelta(seconds=number)
    document = dcm.status(instance_id, reported, event_id=f"e-{number}", time=at)
    return event({**document, "source": source}, sequence=number, **more)


def bindings(player):
    return {(b["provider_name"], b["source"]) for b in player.model.snapshot().dump("provider_binding")}


def test_the_first_source_that_reports_on_a_providers_instance_is_bound_to_the_provider(player):
    assert player.play(said(KUBEVIRT, "vm-1"), said(KUBEVIRT, "vm-2")) == [Outcome.APPLIED] * 2
    assert bindings(player) == {("kubevirt-sp", KUBEVIRT)}
    assert (player.get("vm-1").status, player.get("vm-2").status) == ("RUNNING", "RUNNING")


def test_one_source_may_be_bound_to_several_providers(player):
    assert player.play(said(KUBEVIRT, "vm-1"), said(KUBEVIRT, "cl-1")) == [Outcome.APPLIED] * 2
    assert bindings(player) == {("kubevirt-sp", KUBEVIRT), ("acm-sp", KUBEVIRT)}


def test_a_source_that_is_bound_to_other_providers_only_is_quarantined(player):
    player.play(said(KUBEVIRT, "vm-1"), said(ACM, "cl-1"))
    assert player.play(said(ACM, "vm-1", "DELETED")) == [Outcome.QUARANTINED]
    assert player.get("vm-1").status == "RUNNING"
    assert player.reasons == [
        "unauthorised: source: 'dcm/providers/acm' is bound to the provider 'acm-sp', and not to 'kubevirt-sp'; "
        "see watcher-sync provider binding list"
    ]


LISTED = {"sources": {"kubevirt-sp": f"b {KUBEVIRT}", "acm-sp": "agent-1"}}
"""What ``[handler_dcm] sources`` has, for sources beside the first one of a provider."""


@pytest.mark.parametrize("reported", ["DELETED", "STOPPED", "FAILED"])
@pytest.mark.parametrize("source", ["never-seen", "dcm/providers/kubevirt-sp", "kubevirt-sp", ""])
def test_a_source_never_seen_before_sets_nothing_of_a_provider_that_has_a_source(player, source, reported):
    player.play(said(KUBEVIRT, "vm-1"))
    assert player.play(said(source, "vm-1", reported), said(source, "vm-2", reported)) == [Outcome.QUARANTINED] * 2
    assert (player.get("vm-1").status, player.get("vm-2").status) == ("RUNNING", None)
    assert bindings(player) == {("kubevirt-sp", KUBEVIRT)}


def test_the_reason_names_the_provider_and_what_lets_a_further_source_in(player):
    player.play(said(KUBEVIRT, "vm-1"), said("b", "vm-1"))
    assert player.reasons == [
        "unauthorised: source: 'b' is not bound to the provider 'kubevirt-sp', which has another one; "
        "see watcher-sync provider binding list, and list a further source in [handler_dcm] sources"
    ]


def test_a_further_source_that_the_option_lists_is_bound_to_the_provider_too():
    player = Player(**LISTED)
    player.row("vm-1", provider_name="kubevirt-sp")
    assert player.play(said(KUBEVIRT, "vm-1"), said("b", "vm-1", "STOPPED")) == [Outcome.APPLIED] * 2
    assert player.get("vm-1").status == "STOPPED"
    assert bindings(player) == {("kubevirt-sp", KUBEVIRT), ("kubevirt-sp", "b")}


def test_any_order_of_the_sources_of_a_provider_ends_in_the_same_bindings():
    told = [said(KUBEVIRT, "vm-1"), said("b", "vm-2"), said(ACM, "cl-1"), said("b", "vm-1", "STOPPED")]
    ends = set()
    for order in itertools.permutations(told):
        player = Player(**LISTED)
        for instance_id, provider in (("vm-1", "kubevirt-sp"), ("vm-2", "kubevirt-sp"), ("cl-1", "acm-sp")):
            player.row(instance_id, provider_name=provider)
        assert Outcome.QUARANTINED not in player.play(*order)
        ends.add((frozenset(bindings(player)), player.get("vm-1").status))
    assert ends == {
        (frozenset({("kubevirt-sp", KUBEVIRT), ("kubevirt-sp", "b"), ("acm-sp", ACM)}), "STOPPED"),
    }


OWNERS = {"vm-1": "kubevirt-sp", "vm-2": "kubevirt-sp", "cl-1": "acm-sp", "cl-2": "acm-sp", "st-1": "store-sp"}
SPEAKERS = {KUBEVIRT: {"kubevirt-sp"}, ACM: {"acm-sp", "store-sp"}, "dcm/agents/agent-9": set()}
"""Source -> the providers that it is in truth."""


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*SPEAKERS, "never-seen", "x"]),
            st.sampled_from(sorted(OWNERS)),
            st.sampled_from(["DELETED", "STOPPED", "answer", "gone"]),
            st.sampled_from(["dcm.vm", "dcm.providers.acc.vm", "dcm.agents.responses"]),
        ),
        max_size=25,
    )
)
def test_in_any_sequence_of_events_only_the_first_source_of_a_provider_changes_its_instances(told):
    """Each provider has reported once. The account in a subject is the source of an event."""
    player = Player()
    for instance_id, provider in OWNERS.items():
        player.row(instance_id, provider_name=provider, agent_name="agent-1" if instance_id == "vm-2" else None)
    firsts = ((KUBEVIRT, "vm-1"), (KUBEVIRT, "vm-2"), (ACM, "cl-1"), (ACM, "cl-2"), (ACM, "st-1"))
    assert set(player.play(*(said(source, instance_id) for source, instance_id in firsts))) == {Outcome.APPLIED}
    known = bindings(player)
    for source, instance_id, what, channel in told:
        if what in ("answer", "gone"):
            kind = "error" if what == "answer" else "deletion-acknowledged"
            number = next(_numbers)
            document = dcm.answer(kind, instance_id, agent="agent-1", event_id=f"a-{number}",
                                  time=dcm.NOON + datetime.timedelta(seconds=number))  # fmt: skip
            sent = event({**document, "source": source}, sequence=number, channel="dcm.agents.responses")
        else:
            channel = "dcm.vm" if channel == "dcm.agents.responses" else channel
            sent = said(source, instance_id, what, channel=channel)
        speaker = "acc" if sent.channel.startswith("dcm.providers.") else source
        before = player.get(instance_id)
        (outcome,) = player.play(sent)
        if OWNERS[instance_id] not in SPEAKERS.get(speaker, ()):
            assert outcome in (Outcome.QUARANTINED, Outcome.STALE, Outcome.IGNORED)
            assert player.get(instance_id) == before
        assert bindings(player) == known


def test_an_agent_answers_for_its_own_instances_although_their_provider_has_another_source(player):
    player.row("vm-2", provider_name="kubevirt-sp", agent_name="agent-1")
    player.play(said(KUBEVIRT, "vm-1"))

    def answer(source, at, claimed="agent-1", instance_id="vm-2"):
        document = dcm.answer("request-queued", instance_id, agent=claimed, event_id=f"a-{at}", time=dcm.NOON)
        return event({**document, "source": source}, sequence=at, channel="dcm.agents.responses")

    assert player.play(
        answer("dcm/agents/agent-1", 900),
        answer("dcm/agents/agent-2", 901),
        answer("dcm/agents/agent-1", 902, "", "vm-1"),
    ) == [Outcome.APPLIED, Outcome.QUARANTINED, Outcome.QUARANTINED]
    assert bindings(player) == {("kubevirt-sp", KUBEVIRT)}


def test_a_binding_is_logged_once_at_info(player, caplog):
    caplog.set_level(logging.INFO)
    first = said(KUBEVIRT, "vm-1")
    player.play(first, first, said(KUBEVIRT, "vm-1"), said(KUBEVIRT, "vm-2"))
    lines = [r for r in caplog.records if "is bound to the provider" in r.getMessage()]
    assert [(r.levelname, r.getMessage()) for r in lines] == [
        ("INFO", "source 'kubevirt.localhost' is bound to the provider 'kubevirt-sp' from now on")
    ]


def test_after_a_reset_the_next_event_binds_again_and_the_binding_is_logged_again(player, caplog):
    caplog.set_level(logging.INFO)
    player.play(said(KUBEVIRT, "vm-1"))
    (binding,) = player.model.snapshot().all("provider_binding")
    player.apply([Delete("provider_binding", binding.id, absent(binding.versions[0]))])
    assert bindings(player) == set()
    assert player.play(said(KUBEVIRT, "vm-1", "STOPPED")) == [Outcome.APPLIED]
    assert bindings(player) == {("kubevirt-sp", KUBEVIRT)}
    assert len([r for r in caplog.records if "is bound to the provider" in r.getMessage()]) == 2


def test_an_event_that_waits_for_its_row_binds_when_the_row_appears(player):
    assert player.play(said(ACM, "new")) == [Outcome.PARKED]
    assert bindings(player) == set()
    player.row("new", provider_name="acm-sp")
    assert (player.get("new").status, bindings(player)) == ("RUNNING", {("acm-sp", ACM)})


def test_an_event_that_is_refused_binds_nothing(player):
    assert player.play(said(KUBEVIRT, "vm-1", "LEVITATING")) == [Outcome.QUARANTINED]
    assert bindings(player) == set()


def test_an_instance_without_a_provider_binds_nothing_and_takes_every_source(player):
    player.row("free", provider_name=None)
    assert player.play(said(KUBEVIRT, "free"), said(ACM, "free", "STOPPED")) == [Outcome.APPLIED] * 2
    assert bindings(player) == set()


def test_the_service_type_of_the_subject_is_not_compared_with_the_rows(player):
    player.row("app", service_type="three_tier_app_demo", provider_name="three-tier")
    assert player.play(said("dcm/providers/three-tier", "app", channel="dcm.container")) == [Outcome.APPLIED]


def test_the_account_in_the_nats_subject_is_the_source_that_is_bound(player):
    place = "dcm.providers.kubevirt.vm"
    assert (
        player.play(said("whatever", "vm-1", channel=place), said("else", "vm-1", channel=place))
        == [Outcome.APPLIED] * 2
    )
    assert bindings(player) == {("kubevirt-sp", "kubevirt")}


def warned(source, state="degraded", *, provider="kubevirt-sp", **more):
    number = next(_numbers)
    at = dcm.NOON + datetime.timedelta(seconds=number)
    document = dcm.health(state, provider=provider, event_id=f"h-{number}", time=at, **more)
    return event({**document, "source": source}, sequence=number, channel="dcm.agents.health")


def acknowledged(source, instance_id):
    number = next(_numbers)
    at = dcm.NOON + datetime.timedelta(seconds=number)
    document = dcm.answer("creation-acknowledged", instance_id, event_id=f"a-{number}", time=at)
    return event({**document, "source": source}, sequence=number, channel="dcm.agents.responses")


def state_of(player, entity_id="kubevirt-sp/vm"):
    provider = player.model.get("provider", entity_id)
    return provider and provider.state


@pytest.mark.parametrize("source", ["never-seen", "dcm/agents/agent-9", "dcm/providers/kubevirt-sp", ACM])
def test_a_warning_of_a_source_that_is_not_the_providers_sets_no_state_of_a_provider_with_one(player, source):
    player.play(said(KUBEVIRT, "vm-1"), said(ACM, "cl-1"))
    assert player.play(warned(source)) == [Outcome.QUARANTINED]
    assert (state_of(player), player.get("vm-1").provider_state) == (None, None)
    assert player.reasons[0].startswith(f"unauthorised: source: {source!r} is ")
    assert len(bindings(player)) == 2


def test_a_warning_about_another_name_that_makes_the_same_id_is_refused(player):
    player.row("vm-4", provider_name="region/kubevirt-sp")
    player.play(said(KUBEVIRT, "vm-4"))
    told = warned("never-seen", provider="region", service_type="kubevirt-sp/vm")
    assert player.play(told) == [Outcome.QUARANTINED]
    assert player.get("vm-4").provider_state is None
    assert "service_type" in player.reasons[0]


def test_a_providers_source_and_its_instances_agents_warn_about_it_and_are_bound_to_nothing(player):
    player.row("vm-3", provider_name="kubevirt-sp", agent_name="agent-1")
    player.row("cl-2", "cluster", provider_name="kubevirt-sp", agent_name="agent-2")
    player.play(said(KUBEVIRT, "vm-1"), said(ACM, "cl-1"))
    sources = ("dcm/agents/agent-1", KUBEVIRT, "dcm/agents/agent-2")
    assert player.play(*map(warned, sources)) == [Outcome.APPLIED, Outcome.APPLIED, Outcome.QUARANTINED]
    assert len(bindings(player)) == 2


def test_a_warning_about_a_provider_without_a_source_binds_nothing(player):
    assert player.play(warned("dcm/agents/agent-1"), said(KUBEVIRT, "vm-1")) == [Outcome.APPLIED] * 2
    assert bindings(player) == {("kubevirt-sp", KUBEVIRT)}


@pytest.mark.parametrize("agent_name", [None, "agent-1"])
def test_an_answer_of_another_source_in_the_name_of_the_agent_is_no_recovery_of_the_provider(player, agent_name):
    player.row("vm-3", provider_name="kubevirt-sp", agent_name="agent-1")
    player.row("free", provider_name=None, agent_name=agent_name)
    player.play(said(KUBEVIRT, "vm-1"), warned("dcm/agents/agent-1"))
    assert player.play(acknowledged("never-seen", "free")) == [Outcome.APPLIED]
    assert state_of(player) == "degraded"
    assert player.play(acknowledged("dcm/agents/agent-1", "free")) == [Outcome.APPLIED]
    assert state_of(player) == "available"


# The other policies


@pytest.mark.parametrize(
    ("source", "channel", "outcome"),
    [
        (KUBEVIRT, "dcm.vm", Outcome.APPLIED),
        ("dcm/providers/kubevirt-sp", "dcm.vm", Outcome.APPLIED),
        ("kubevirt-sp", "dcm.vm", Outcome.QUARANTINED),
        (ACM, "dcm.vm", Outcome.QUARANTINED),
        ("whatever", "dcm.providers.account-7.vm", Outcome.APPLIED),
        (KUBEVIRT, "dcm.providers.account-8.vm", Outcome.QUARANTINED),
        (KUBEVIRT, "dcm.container", Outcome.QUARANTINED),
    ],
)
def test_enforce_allows_what_the_map_lists_under_the_rows_service_type(source, channel, outcome):
    player = Player(source_policy="enforce", sources={"kubevirt-sp": f"{KUBEVIRT} dcm/providers/kubevirt-sp account-7"})
    player.row("vm-1", provider_name="kubevirt-sp")
    assert player.play(said(source, "vm-1", channel=channel)) == [outcome], player.reasons
    assert bindings(player) == set()


def test_enforce_allows_nothing_for_a_provider_that_the_map_lacks():
    player = Player(source_policy="enforce")
    player.row("vm-1", provider_name="kubevirt-sp")
    assert player.play(said("dcm/providers/kubevirt-sp", "vm-1")) == [Outcome.QUARANTINED]
    assert player.reasons == [
        "unauthorised: source: 'dcm/providers/kubevirt-sp' is none of those that [handler_dcm] sources lists for "
        "'kubevirt-sp'"
    ]


def test_enforce_allows_a_subject_that_the_rows_service_type_declares():
    gpu = ServiceType(name="gpu", statuses=frozenset({"IDLE"}), subjects=frozenset({"vm"}))
    player = Player(services=ServiceTypes([("acme", gpu)]), source_policy="enforce", sources={"p": "p"})
    for instance_id, service_type in (("g-1", "gpu"), ("c-1", "container")):
        player.row(instance_id, service_type=service_type, provider_name="p")
    assert player.play(said("p", "g-1", "idle"), said("p", "c-1")) == [Outcome.APPLIED, Outcome.QUARANTINED]
    assert player.get("g-1").status == "IDLE"
    assert player.reasons == [
        "unauthorised: type: 'vm' is not the service type of service_type_instance c-1, 'container'"
    ]


@pytest.mark.parametrize(("policy", "lines"), [("warn", 1), ("off", 0)])
def test_warn_applies_and_tells_and_off_only_applies(policy, lines, caplog):
    player = Player(source_policy=policy)
    player.row("vm-1", provider_name="kubevirt-sp")
    assert player.play(said(KUBEVIRT, "vm-1"), said(KUBEVIRT, "vm-1")) == [Outcome.APPLIED] * 2
    assert len([r for r in caplog.records if "see [handler_dcm] source_policy" in r.getMessage()]) == lines
    assert bindings(player) == set()


# Service types that speak on the subjects of others


def test_statuses_that_come_on_another_subject_are_those_of_the_rows_service_type():
    gpu = ServiceType(name="gpu", statuses=frozenset({"IDLE"}), aliases={"FREE": "IDLE"}, subjects=frozenset({"vm"}))
    player = Player(services=ServiceTypes([("acme", gpu)]))
    assert player.play(said("p", "g-1", "free"), said("p", "vm-1", "free")) == [Outcome.PARKED] * 2
    player.row("g-1", service_type="gpu", provider_name="p")
    player.row("vm-1", provider_name="p")
    assert (player.get("g-1").status, player.get("vm-1").status) == ("IDLE", None)
    assert player.reasons[0].startswith("data.status: 'free' is no status of vm;")


def test_a_plugin_adds_a_subject_to_a_service_type():
    more = ServiceType(name="network", subjects=frozenset({"storage"}), extends=True)
    player = Player(services=ServiceTypes([("acme", more)]), source_policy="enforce", sources={"p": "p"})
    player.row("n-1", service_type="network", provider_name="p")
    assert player.play(said("p", "n-1", "READY", channel="dcm.storage")) == [Outcome.APPLIED]

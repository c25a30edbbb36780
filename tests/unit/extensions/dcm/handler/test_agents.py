# SPDX-License-Identifier: Apache-2.0
"""What environment agents answer to the control plane, and what follows from it for the row."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from tests.providers import EPOCH, Player, event, seconds
from watcher_sync.model.changes import Outcome
from watcher_sync.testing.dcm import publisher as dcm

RESPONSES = (EPOCH + 1, 0)
"""The epoch of the stream of answers, which is younger than that of the statuses."""


@pytest.fixture
def player():
    player = Player()
    player.row(provider_name=None, agent_name="agent-1")
    return player


def answer(kind, at=1, *, resource_id="i-1", agent="agent-1", epoch=RESPONSES[0], **data):
    document = dcm.answer(kind, resource_id, agent=agent, event_id=f"a-{kind}-{at}", time=seconds(at), **data)
    return event(document, sequence=(epoch, at), channel="dcm.agents.responses")


def status(reported, at):
    return event(reported=reported, sequence=at, time=seconds(at), event_id=f"s-{at}")


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("creation-acknowledged", "PROVISIONING"),
        ("request-queued", "QUEUED"),
        ("cancel-acknowledged", "CANCELLED"),
        ("cancel-rejected", "PENDING_DELETION"),
        ("error", "FAILED"),
    ],
)
@pytest.mark.parametrize("prefix", ["dcm.agent.", ""])
def test_an_answer_sets_the_state_of_the_row(player, kind, state, prefix):
    told = msgspec.structs.replace(answer(kind), type=f"{prefix}{kind}")
    assert player.play(told) == [Outcome.APPLIED]
    assert (player.get().status, player.get().status_updated_at) == (state, seconds(1))


def test_the_error_of_an_answer_is_the_message(player):
    player.play(answer("error", error="SP_UNAVAILABLE", details="no provider of vm"))
    assert player.get().status_message == "SP_UNAVAILABLE: no provider of vm"
    player.play(answer("cancel-rejected", 2, reason="dispatched already"))
    assert player.get().status_message == "dispatched already"
    player.play(answer("creation-acknowledged", 3))
    assert player.get().status_message is None


def test_after_a_deletion_the_row_is_gone_and_no_late_event_brings_it_back(player):
    assert player.play(status("DELETING", 1), answer("deletion-acknowledged", 2)) == [Outcome.APPLIED] * 2
    assert player.get() is None
    late = [status("DELETED", 3), answer("creation-acknowledged", 4), answer("deletion-acknowledged", 2)]
    assert player.play(*late) == [Outcome.STALE, Outcome.STALE, Outcome.DUPLICATE]
    assert player.get() is None


@pytest.mark.parametrize("kind", ["deletion-acknowledged", "request-queued"])
def test_an_answer_waits_for_its_row(kind):
    player = Player()
    assert player.play(answer(kind)) == [Outcome.PARKED]
    player.row(agent_name="agent-1")
    assert player.parked() == 0
    assert (player.get() is None) is (kind == "deletion-acknowledged")
    assert Player(unknown_instance="ignore").play(answer(kind)) == [Outcome.IGNORED]


def test_the_answer_of_an_agent_that_another_one_replaced_is_ignored(player):
    late = [answer(kind, at, agent="agent-0") for at, kind in enumerate(("error", "deletion-acknowledged"), 1)]
    assert player.play(*late) == [Outcome.IGNORED] * 2
    assert player.get().status is None


def test_a_row_without_an_agent_takes_every_agents_answers():
    player = Player()
    player.row()
    assert player.play(answer("request-queued")) == [Outcome.APPLIED]


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH, EPOCH + 1])
def test_any_order_of_answers_and_statuses_ends_in_the_last_status_of_the_provider(epoch):
    told = [answer("request-queued", 1, epoch=epoch), answer("creation-acknowledged", 2, epoch=epoch),
            status("PROVISIONING", 3), status("RUNNING", 4)]  # fmt: skip
    ends = set()
    for order in itertools.permutations([*told, told[0]]):
        player = Player()
        player.row(agent_name="agent-1")
        player.play(*order)
        ends.add((player.get().status, player.get().status_updated_at))
    assert ends == {("RUNNING", seconds(4))}


def test_any_order_of_answers_ends_in_the_last_answer():
    told = [answer("request-queued", 1), answer("cancel-acknowledged", 2), answer("cancel-rejected", 3)]
    for order in itertools.permutations([*told, told[1]]):
        player = Player()
        player.row(agent_name="agent-1")
        player.play(*order)
        assert player.get().status == "PENDING_DELETION"


@pytest.mark.parametrize("word", ["QUEUED", "cancelled", "Pending_Deletion"])
@pytest.mark.parametrize("policy", ["quarantine", "store"])
def test_a_status_event_never_sets_a_state_of_the_agents(word, policy):
    player = Player(unknown_status=policy)
    player.row()
    assert player.play(event(reported=word, sequence=1)) == [Outcome.QUARANTINED]
    assert player.get().status is None


def test_what_else_agents_and_the_control_plane_say_is_ignored(player):
    for kind in ("dcm.agent.registered", "dcm.request.create", "heartbeat"):
        told = msgspec.structs.replace(answer("error"), type=kind)
        assert player.play(told) == [Outcome.IGNORED]


def test_an_answer_without_a_resource_is_refused(player):
    assert player.play(answer("error", resource_id="")) == [Outcome.QUARANTINED]
    assert "resource_id" in player.reasons[0]


# Who may answer


def test_a_source_that_is_bound_to_other_providers_only_may_not_answer():
    player = Player()
    player.row(provider_name="kubevirt-1", agent_name="agent-1")
    player.row("c-1", provider_name="acm")
    other = event(dcm.status("c-1", provider="acm", event_id="o"), sequence=2)
    assert player.play(event(sequence=1), other) == [Outcome.APPLIED] * 2
    forged = event(
        {**dcm.answer("deletion-acknowledged", "i-1", agent="agent-1", event_id="f"), "source": "dcm/providers/acm"},
        sequence=(RESPONSES[0], 1), channel="dcm.agents.responses",
    )  # fmt: skip
    assert player.play(forged, answer("request-queued", 2)) == [Outcome.QUARANTINED, Outcome.STALE]
    assert player.get().status == "RUNNING"


@pytest.mark.parametrize(
    ("sources", "outcome"),
    [
        ({"agent-1": "dcm/agents/agent-1"}, Outcome.APPLIED),
        ({"kubevirt-1": "dcm/agents/agent-1"}, Outcome.APPLIED),
        ({"kubevirt-1": "dcm/providers/kubevirt-1"}, Outcome.QUARANTINED),
    ],
)
def test_enforce_lists_an_agent_under_its_own_name_or_under_the_provider(sources, outcome):
    player = Player(source_policy="enforce", sources=sources)
    player.row(agent_name="agent-1")
    assert player.play(answer("request-queued")) == [outcome]


def test_enforce_lists_the_sources_of_a_row_that_has_an_agent_and_no_provider():
    player = Player(source_policy="enforce", sources={"agent-1": "dcm/providers/kubevirt-1"})
    player.row(provider_name=None, agent_name="agent-1")
    assert player.play(event(sequence=1)) == [Outcome.APPLIED]


# The health of providers


def warning(at, state="degraded", *, names="snake", service_type="vm"):
    document = dcm.health(state, service_type=service_type, event_id=f"h-{at}", time=seconds(at))
    document["source"] = "dcm/agents/agent-1"
    if names == "camel":
        document["data"] = {
            "agentId": "agent-1", "agentName": "agent-1", "topicName": "dcm.agent.agent-1",
            "serviceType": service_type, "reason": "it fails", "affectedProvider": "kubevirt-1",
        }  # fmt: skip
    return event(document, sequence=(EPOCH - 1, at), channel="dcm.agents.health")


@pytest.mark.parametrize("names", ["snake", "camel"])
def test_a_warning_has_names_of_either_form(names):
    player = Player()
    assert player.play(warning(1, names=names)) == [Outcome.APPLIED]
    provider = player.model.get("provider", "kubevirt-1/vm")
    assert (provider.state, provider.agent_name) == ("degraded", "agent-1")


def recovering(*events):
    player = Player()
    player.row(agent_name="agent-1")
    player.play(*events)
    provider = player.model.get("provider", "kubevirt-1/vm")
    return provider.state, provider.reason, provider.updated_at, player.get().provider_state if player.get() else None


@pytest.mark.parametrize("kind", ["creation-acknowledged", "cancel-rejected", "cancel-acknowledged"])
def test_a_later_answer_of_the_agent_is_the_recovery_of_its_provider(kind):
    assert recovering(warning(1), answer(kind, 2)) == ("available", None, seconds(2), "available")
    assert recovering(warning(1, "unavailable"), answer("deletion-acknowledged", 2))[0] == "available"


@pytest.mark.parametrize(
    "told",
    [
        answer("creation-acknowledged", 1),
        answer("request-queued", 9),
        answer("error", 9),
        answer("creation-acknowledged", 9, agent="agent-2"),
    ],
)
def test_an_earlier_answer_a_failure_and_another_agent_are_no_recovery(told):
    assert recovering(warning(5), told)[0] == "degraded"


def test_an_acknowledgement_for_another_service_type_is_no_recovery():
    player = Player()
    player.row(service_type="container", agent_name="agent-1")
    player.play(warning(1), answer("creation-acknowledged", 2))
    assert player.model.get("provider", "kubevirt-1/vm").state == "degraded"


def test_a_later_warning_wins_over_the_recovery_and_a_redelivered_one_does_not():
    told = [warning(1), answer("creation-acknowledged", 2), warning(1)]
    assert recovering(*told)[0] == "available"
    assert recovering(*told, warning(3, "unavailable"), answer("creation-acknowledged", 2))[0] == "unavailable"
    again = msgspec.structs.replace(warning(1), sequence=(EPOCH - 1, 7))
    assert recovering(*told, again)[0] == "available", "what is published again describes the older state"


def test_a_warning_without_a_sequence_recovers_too():
    told = msgspec.structs.replace(warning(1), sequence=None)
    assert recovering(told, answer("creation-acknowledged", 2), told)[0] == "available"

# SPDX-License-Identifier: Apache-2.0
"""What agents say of providers, and that the providers' instances show it."""

from __future__ import annotations

import itertools

import pytest

from tests.providers import Player, event, seconds
from watcher_sync.model.changes import Outcome
from watcher_sync.testing.dcm import publisher


def said(state="degraded", *, sequence=None, **fields):
    return event(publisher.health(state, **fields), channel=publisher.SUBJECT_HEALTH, sequence=sequence)


@pytest.fixture
def player():
    player = Player()
    player.row()
    return player


@pytest.mark.parametrize("state", ["degraded", "unavailable", "available"])
def test_a_providers_instances_show_its_state(player, state):
    assert player.play(said(state, sequence=1)) == [Outcome.APPLIED]
    assert player.get().provider_state == state
    provider = player.model.get("provider", "kubevirt-1/vm")
    assert (provider.name, provider.service_type, provider.state) == ("kubevirt-1", "vm", state)
    assert provider.agent_name == "agent-1"
    assert provider.reason.startswith("service provider health check")


def test_a_provider_without_a_report_has_no_state(player):
    assert player.get().provider_state is None


def test_the_state_is_of_one_service_type_of_a_provider(player):
    player.row("i-2", service_type="container")
    player.row("i-3", provider_name="other")
    player.play(said(sequence=1))
    assert [player.get(f"i-{i}").provider_state for i in (1, 2, 3)] == ["degraded", None, None]


def test_row_and_complaint_may_come_in_any_order_and_the_last_word_counts():
    for order in itertools.permutations([said("degraded", sequence=1), said("unavailable", sequence=2), None]):
        player = Player()
        for step in order:
            player.row() if step is None else player.play(step)
        assert player.get().provider_state == "unavailable"


def test_an_instance_that_moves_to_another_provider_shows_that_ones_state(player):
    player.play(said(sequence=1))
    player.row(provider_name="other")
    assert player.get().provider_state is None
    player.row()
    assert player.get().provider_state == "degraded"


def test_a_complaint_that_fails_halfway_leaves_the_instances_alone(player):
    document = publisher.health(provider="k" * 254)
    player.row("i-2", provider_name="k" * 254)
    assert player.play(event(document, sequence=1)) == [Outcome.QUARANTINED]
    assert player.get("i-2").provider_state is None


def test_without_a_sequence_the_time_decides(player):
    player.play(said("unavailable", event_id="a", time=seconds(2)), said("degraded", event_id="b", time=seconds(1)))
    assert player.get().provider_state == "unavailable"


@pytest.mark.parametrize("type_", ["dcm.agents.health.service-type-degraded", "service-type-degraded"])
def test_other_forms_of_the_type_are_understood(player, type_):
    player.play(event({**publisher.health(), "type": type_}, sequence=1))
    assert player.get().provider_state == "degraded"


@pytest.mark.parametrize(
    ("change", "needle"),
    [({"type": "dcm.agent.health.service-type-bored"}, "type"), ({"data": {"serviceType": "vm"}}, "affectedProvider"),
     ({"data": {"affectedProvider": "p"}}, "serviceType"), ({"data": {"affectedProvider": 1}}, "affectedProvider")],
)  # fmt: skip
def test_what_is_wrong_with_a_complaint_is_named(player, change, needle):
    assert player.play(event({**publisher.health(), **change}, sequence=1)) == [Outcome.QUARANTINED]
    assert needle in player.reasons[0]

# SPDX-License-Identifier: Apache-2.0
"""Two entities have two keys on each log, whatever ids they have: a member chooses an id, and must not hit another one.

The keys are those by which a log, or a reader, takes two messages for states of one entity.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watcher_sync.extensions.log.base import SNAPSHOT, LogChange
from watcher_sync.extensions.log.formats import cloud_event
from watcher_sync.extensions.log.nats_jetstream.messages import begin_subject, end_subject, subject_of, token_of
from watcher_sync.extensions.log.oslo_messaging.notifications import notification
from watcher_sync.extensions.watch.model.resources import Describer
from watcher_sync.testing.kinds import builtin_kinds

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
PREFIX = "watcher-sync.north"

BUILTIN = builtin_kinds()
KINDS = st.sampled_from(sorted(BUILTIN))
IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=255)
NEAR_DIGESTS = IDS.map(token_of)
"""What an id becomes, as an id."""
ENTITIES = st.tuples(KINDS, IDS | NEAR_DIGESTS | NEAR_DIGESTS.map(lambda token: token.replace("=", "_")))


def state(kind: str, entity_id: str) -> LogChange:
    """An entity in a snapshot, where all have one seq."""
    return LogChange(
        partition="north", epoch="e", seq=7, change=SNAPSHOT, kind=kind, id=entity_id, time=NOW, after={"id": entity_id}
    )


def subject(kind: str, entity_id: str) -> str:
    return subject_of(PREFIX, state(kind, entity_id))


def key(kind: str, entity_id: str) -> str:
    return state(kind, entity_id).key


def self_link(kind: str, entity_id: str) -> str:
    return Describer(BUILTIN).resource(BUILTIN[kind], entity_id, {}, {}).self_link


def message_id(kind: str, entity_id: str) -> str:
    message = json.loads(notification(state(kind, entity_id)))["oslo.message"]
    return str(json.loads(message)["message_id"])


def event_id(kind: str, entity_id: str) -> str:
    return str(json.loads(cloud_event(state(kind, entity_id)))["id"])


@pytest.mark.parametrize("key_of", [subject, key, self_link, message_id, event_id], ids=lambda key: key.__name__)
@given(one=ENTITIES, other=ENTITIES)
@example(one=("instance", "a b"), other=("instance", token_of("a b")))
@example(one=("instance", "a b"), other=("instance", token_of("a b").replace("=", "_")))
def test_two_entities_never_have_one_key(
    key_of: Callable[[str, str], object], one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (key_of(*one) == key_of(*other)) == (one == other)


@given(one=ENTITIES)
def test_no_entity_has_the_subject_of_a_marker_and_each_subject_has_four_tokens(one: tuple[str, str]) -> None:
    found = subject(*one)
    assert found not in (begin_subject(PREFIX), end_subject(PREFIX))
    assert len(found.split(".")) == 4
    assert found.isascii()
    assert not set(found) & set(" *>\r\n\t")

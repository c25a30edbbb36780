# SPDX-License-Identifier: Apache-2.0
"""The index finds the same topics as a scan over all their filters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.extensions.watch.model.filters import FilterIndex, filter_type, key_of, passes
from watcher_sync.extensions.watch.model.topics import ANY, TYPES, TopicFilter, TopicScope
from watcher_sync.extensions.watch.wire import descriptions
from watcher_sync.extensions.watch.wire.descriptions import ChangeType, ResourceDescription

VALUES = st.sampled_from(["a", "b", "c"])
PATTERNS = st.sampled_from([ANY, "a", "b"])
FILTERS = st.builds(
    TopicFilter,
    group=PATTERNS,
    kind=PATTERNS,
    name=PATTERNS,
    scope=st.builds(TopicScope, PATTERNS, PATTERNS),
    types=st.sets(st.sampled_from(TYPES), min_size=1).map(frozenset),
)
SCOPES = st.none() | st.builds(
    lambda kind, name: descriptions.ScopeDescription(id=name, kind=kind, name=name, self_link=""), VALUES, VALUES
)
RESOURCES = st.builds(
    lambda group, kind, name, scope: ResourceDescription(
        group=group, kind=kind, name=name, id="1", self_link="", scope=scope
    ),
    VALUES, VALUES, VALUES, SCOPES,
)  # fmt: skip
INSTANCE = ResourceDescription(
    group="compute",
    kind="Instance",
    name="web",
    id="1",
    self_link="",
    scope=descriptions.ScopeDescription(id="n1", kind="ComputeNode", name="n1", self_link=""),
)


def index(*filters):
    return FilterIndex([("topic", filters)])


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.lists(FILTERS, max_size=4), max_size=8), st.sampled_from(list(ChangeType)), RESOURCES)
def test_the_index_finds_what_a_scan_of_all_filters_finds(topics, change_type, resource):
    key, wanted = key_of(resource), filter_type(change_type)
    scanned = {i for i, filters in enumerate(topics) if any(passes(each, key, wanted) for each in filters)}
    assert FilterIndex(enumerate(topics)).matching(change_type, resource) == scanned


def test_ten_thousand_topics_of_every_form_cost_at_most_32_look_ups():
    forms = [[bool(i >> bit & 1) for bit in range(5)] for i in range(32)]
    topics = []
    for n in range(10_000):
        parts = [ANY if is_any else f"value-{n}" for is_any in forms[n % 32]]
        topics.append(
            (n, [TopicFilter(group=parts[0], kind=parts[1], scope=TopicScope(parts[2], parts[3]), name=parts[4])])
        )
    found = FilterIndex(topics)
    assert len(found._shapes["updated"]) == 32
    assert found.matching(ChangeType.UPDATED, INSTANCE) == {n for n in range(10_000) if n % 32 == 31}


def test_an_index_looks_up_only_the_forms_that_its_filters_have():
    found = index(TopicFilter(group="compute", kind=ANY), TopicFilter(group="vnf", kind=ANY))
    assert len(found._shapes["created"]) == 1


def test_an_update_of_a_sub_resource_is_an_update():
    updates = index(TopicFilter(group=ANY, kind=ANY, types=frozenset({"updated"})))
    assert updates.matching(ChangeType.SUBRESOURCE_UPDATED, INSTANCE) == {"topic"}
    assert not updates.matching(ChangeType.DELETED, INSTANCE)


def test_a_filter_for_a_scope_passes_only_resources_in_it():
    scoped = index(TopicFilter(group=ANY, kind=ANY, scope=TopicScope("ComputeNode", "n1")))
    assert scoped.matching(ChangeType.CREATED, INSTANCE) == {"topic"}
    node = ResourceDescription(group="compute", kind="ComputeNode", name="n1", id="n1", self_link="")
    assert not scoped.matching(ChangeType.CREATED, node)


def test_an_index_without_topics_finds_none():
    assert FilterIndex[str]([]).matching(ChangeType.CREATED, INSTANCE) == set()

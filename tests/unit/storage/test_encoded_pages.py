# SPDX-License-Identifier: Apache-2.0
"""Pages of encoded entities, after any insertions, changes and deletions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.extensions.openstack.read.compute_model import merge, pages_of

IDS = st.integers(min_value=0, max_value=400).map(lambda number: f"{number:03d}")
TEXTS = st.binary(min_size=1, max_size=8)


def content(pages):
    """Every id with its text, in the order of the pages."""
    return [entity for page in pages for entity in page.entities()]


@pytest.mark.slow
@given(start=st.dictionaries(IDS, TEXTS, max_size=400), changes=st.lists(st.dictionaries(IDS, st.none() | TEXTS)))
def test_after_any_changes_the_pages_have_what_exists_sorted_by_id(start, changes):
    pages, truth = pages_of(start), dict(start)
    for change in changes:
        encoded = {entity_id: text for entity_id, text in change.items() if text is not None}
        pages = merge(pages, change.keys(), encoded)
        truth = {i: t for i, t in (truth | change).items() if t is not None}
        assert content(pages) == sorted(truth.items())
    assert b"".join(page.text for page in pages) == b"".join(b"," + truth[i] for i in sorted(truth))
    assert all(page.ids for page in pages)


def test_a_change_leaves_the_pages_that_it_does_not_touch_as_they_are():
    pages = pages_of({f"{n:05d}": b"x" for n in range(1000)})
    after = merge(pages, ["00555"], {"00555": b"y"})
    assert len(pages) == 10
    assert [old is new for old, new in zip(pages, after, strict=True)] == [n != 5 for n in range(10)]


def test_a_page_that_grew_to_twice_its_size_is_split():
    pages = pages_of({f"{n:05d}": b"x" for n in range(100)})
    added = {f"{n:05d}a": b"x" for n in range(100)}
    assert [len(page.ids) for page in merge(pages, added, added)] == [100, 100]

# SPDX-License-Identifier: Apache-2.0
"""Encoded entities, sorted by id, in immutable pages of text. A change costs the pages that it touches, not all text.

The text of a page is ready to be sent: a comma precedes each entity. So the entities of a page are slices of its text,
and exist once in memory. Pure; any thread.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

_ROWS = 100
"""Entities of a new page; a page with twice as many is split."""


class EncodedPage(msgspec.Struct, frozen=True, gc=False):
    """Some entities."""

    ids: tuple[str, ...]
    ends: tuple[int, ...]
    """Where the text of each entity ends."""
    text: bytes

    def entities(self) -> Iterator[tuple[str, bytes]]:
        """Each id with the text of its entity."""
        begin = 0
        for entity_id, end in zip(self.ids, self.ends, strict=True):
            yield entity_id, self.text[begin + 1 : end]
            begin = end


Pages = tuple[EncodedPage, ...]
"""In the order of the ids; no page is empty."""


def pages_of(encoded: Mapping[str, bytes]) -> Pages:
    """The pages of these entities."""
    return tuple(_split(sorted(encoded.items())))


def merge(pages: Pages, changed: Collection[str], encoded: Mapping[str, bytes]) -> Pages:
    """The pages after some entities changed.

    :param changed: their ids.
    :param encoded: those of them that exist.
    """
    if not pages:
        return pages_of(encoded)
    firsts = [page.ids[0] for page in pages]
    touched: dict[int, list[str]] = {}
    for entity_id in changed:
        touched.setdefault(max(0, bisect.bisect_right(firsts, entity_id) - 1), []).append(entity_id)
    merged: list[EncodedPage] = []
    for number, page in enumerate(pages):
        ids = touched.get(number)
        if ids is None:
            merged.append(page)
            continue
        entities = dict(page.entities())
        for entity_id in ids:
            text = encoded.get(entity_id)
            if text is None:
                entities.pop(entity_id, None)
            else:
                entities[entity_id] = text
        merged += _split(sorted(entities.items()))
    return tuple(merged)


def _split(entities: Sequence[tuple[str, bytes]]) -> Iterator[EncodedPage]:
    """One page, or several where they are too many for one."""
    size = _ROWS if len(entities) >= 2 * _ROWS else max(1, len(entities))
    for start in range(0, len(entities), size):
        yield _page(entities[start : start + size])


def _page(entities: Iterable[tuple[str, bytes]]) -> EncodedPage:
    ids, ends, texts, end = [], [], [b""], 0
    for entity_id, text in entities:
        end += len(text) + 1
        ids.append(entity_id)
        ends.append(end)
        texts.append(text)
    return EncodedPage(tuple(ids), tuple(ends), b",".join(texts))

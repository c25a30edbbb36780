# SPDX-License-Identifier: Apache-2.0
"""Limits of lengths and numbers in the model, for decoders and for tables."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
"""An entity's id."""

MAX_TEXT_CHARS = 255
"""Characters of a short text."""

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]
"""A short text: a name, a state, an id of something else."""

MAX_DOCUMENT_BYTES = 524_288
"""Bytes that one field with an object or a list may have as JSON."""

MAX_MESSAGE_CHARS = 65_535
"""Characters of a message for people; a longer one is cut."""

LongText = Annotated[str, msgspec.Meta(max_length=MAX_MESSAGE_CHARS)]
"""A message for people. The model cuts and cleans it, and refuses none (:mod:`watcher_sync.model.texts`)."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""A number of things, or an amount in the unit that the field's name ends with."""

_EPOCH: Final = re.compile(r"[0-9A-Za-z._-]{1,32}")


def is_epoch(text: str) -> bool:
    """Whether a text from outside may be the epoch of a database, which is a part of positions."""
    return _EPOCH.fullmatch(text) is not None


Seq = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A place in a journal or a stream."""

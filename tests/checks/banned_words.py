# SPDX-License-Identifier: Apache-2.0
"""The words that the project does not use, because the field has a precise term for each of them.

Each entry has the form that is searched and the term that replaces it. Matching ignores case and respects word
boundaries, so that an identifier such as ``last_heard`` never matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Ban(NamedTuple):
    """A banned form, as a regular expression without groups, and what to write instead."""

    pattern: str
    instead: str


BANS: tuple[Ban, ...] = (
    Ban(r"told", "notified, reported, or the name of the message"),
    Ban(r"whoever", "name the actor"),
    Ban(r"nobody", "name the actor, or use the passive voice with 'not'"),
    Ban(r"somebody", "name the actor"),
    Ban(r"anew", "again"),
    Ban(r"for ?ever", "without limit, indefinitely, until stopped"),
    Ban(r"what (?:became|becomes|has become) of", "the result of, the state of"),
    # A standby engine stands by: that is the field's term.
    Ban(r"(?:stands|stood|standing)(?! by\b)", "is, represents, is written"),
    # A connection that is kept alive or kept open is the field's term, too.
    Ban(r"kept(?! (?:alive|open)\b)", "stored, retained, preserved, unchanged"),
    # "looks up" is a look-up, and "looks like" a comparison.
    Ban(r"(?:looks|looked|looking)(?! (?:up|like)\b)", "checks, searches, reads"),
    Ban(r"look (?:whether|if|after)", "check, maintain"),
    Ban(r"(?:take|takes|taken|taking|took)(?: it| them)? up", "processes, accepts, resumes"),
    Ban(r"(?:hear|hears|heard|hearing)", "receives, reads, notices"),
    # "short-lived" and "long-lived" are the field's terms.
    Ban(r"(?<!-)(?:lives|lived)", "is in, runs in, lasts"),
)


def _as_group(number: int, ban: Ban) -> str:
    pattern = ban.pattern.replace(" ?", r"\s*").replace(" ", r"\s+")
    return rf"(?P<ban{number}>\b{pattern}\b)"


# Quotes, comment signs and prefixes of strings may be between two words that are next to each other in the text.
_RAW_GAP = r"[\s#\"'\\rf]*"
_MAYBE = re.compile(
    r"prose\b|(?:\b|\\[nt])(?:"
    + "|".join(ban.pattern.replace(" ?", _RAW_GAP).replace(" ", _RAW_GAP) for ban in BANS)
    + r")\b",
    re.IGNORECASE,
)
_ANY = re.compile("|".join(_as_group(number, ban) for number, ban in enumerate(BANS)), re.IGNORECASE)


def may_violate(source: str) -> bool:
    """Whether source may have a banned word or an exception: quick, and wrong only in saying yes."""
    return _MAYBE.search(source) is not None


def banned_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields the offset, the matched words and the replacement of each banned form in the text."""
    for match in _ANY.finditer(text):
        assert match.lastgroup is not None
        ban = BANS[int(match.lastgroup.removeprefix("ban"))]
        yield match.start(), " ".join(match.group().split()), ban.instead

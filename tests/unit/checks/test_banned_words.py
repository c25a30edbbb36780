# SPDX-License-Identifier: Apache-2.0
"""Banned words are found in every form, and the field's own terms are not."""

from __future__ import annotations

import pytest

from tests.checks.banned_words import banned_in, may_violate

FOUND = [
    *("told", "whoever", "nobody", "somebody", "anew", "for ever", "forever", "for\never", "FOR EVER", "Nobody"),
    *("stands", "stood", "kept", "kept\nalivener", "looks", "looked at", "takes up", "taken up", "hears", "heard"),
    *("lives", "lived"),
    "what became of",  # prose: must be found
    "what becomes of",  # prose: must be found
    "take them up",  # prose: must be found
]
PASSED = [
    *("last_heard", "serve_forever", "kept_events", "untold", "heartbeat", "understood", "stands by", "kept alive"),
    *("kept open", "looks up", "looks like", "short-lived", "a live model", "takes", "what has come"),
]


@pytest.mark.parametrize("text", FOUND)
def test_a_banned_word_is_found(text: str) -> None:
    assert len(list(banned_in(f"This {text}, and more."))) == 1
    assert may_violate(f"# This {text}, and more.")


@pytest.mark.parametrize("text", PASSED)
def test_a_term_of_the_field_is_not_found(text: str) -> None:
    assert list(banned_in(f"This {text}, and more.")) == []


def test_the_place_the_words_and_a_replacement_are_named() -> None:
    [(offset, word, instead)] = banned_in("a retry for\n  ever")  # prose: the expected match

    assert (offset, word) == (8, "for ever")
    assert instead

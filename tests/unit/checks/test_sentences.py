# SPDX-License-Identifier: Apache-2.0
"""Documentation text is split into sentences; code, tables and lists are no part of them."""

from __future__ import annotations

import textwrap

import pytest

from tests.checks.sentences import Line, count_words, mask_code, sentences


def numbered(text: str) -> list[Line]:
    return list(enumerate(textwrap.dedent(text).strip("\n").splitlines(), start=1))


def split(text: str) -> list[str]:
    return [sentence.text for sentence in sentences(numbered(text))]


def test_a_sentence_ends_with_a_full_stop_and_goes_on_over_lines() -> None:
    found = list(sentences(numbered("One two\nthree. Four\nfive! Six?")))

    assert [(sentence.line, sentence.text, sentence.words) for sentence in found] == [
        (1, "One two three.", 3),
        (2, "Four five!", 2),
        (3, "Six?", 1),
    ]


@pytest.mark.parametrize("text", ["Some, e.g. One, are here.", "A version 1.2 is one.", "It ends: so. it goes on."])
def test_a_full_stop_inside_a_sentence_does_not_end_it(text: str) -> None:
    assert split(text) == [text]


def test_a_paragraph_a_list_item_and_a_field_end_a_sentence() -> None:
    text = """
    Before:

    * one
      two
    * three

    After

    :param name: its
        name
    :raises ValueError: if not
    """
    assert split(text) == ["Before:", "one two", "three", "After", "its name", "if not"]


def test_code_tables_and_the_rows_of_a_package_map_are_left_out() -> None:
    text = """
    Before::

        code is here. And here.

    =====  ==========
    Head   Of a table
    =====  ==========
    ``a``  a row
    =====  ==========

    ``name``   a row of a map
               that goes on
    ``other``  another

    >>> doctest

    .. code-block:: python
       :caption: Code

       more code

    After.
    """
    assert split(text) == ["Before::", "After."]


def test_a_note_is_text() -> None:
    assert split(".. note:: One.\n\n   Two.\n\n.. a comment\n   of two lines") == ["One.", "Two."]


def test_a_code_span_and_a_role_are_one_word() -> None:
    assert count_words(mask_code("call ``a b c`` or :meth:`X.y` -> now")) == 5

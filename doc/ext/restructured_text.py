# SPDX-License-Identifier: Apache-2.0
"""The lines of headings and tables, for the directives that generate them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def heading(text: str, underline: str) -> Iterator[str]:
    """The lines of a heading.

    :param underline: the character of its underline.
    """
    yield from (text, underline * len(text), "")


def table(head: Sequence[object], rows: Sequence[Sequence[object]], *, widths: str) -> Iterator[str]:
    """The lines of a list table.

    :param widths: the relative widths of its columns, separated by spaces.
    """
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in (head, *rows):
        for number, cell in enumerate(row):
            yield f"   {'*' if number == 0 else ' '} - {cell}"
    yield ""

# SPDX-License-Identifier: Apache-2.0
"""The order of two resourceVersions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.extensions.kubernetes.wire.kubernetes import is_below

NUMBERS = st.integers(0, 10**30)


@given(one=NUMBERS, other=NUMBERS, zeros=st.integers(0, 3))
def test_a_resource_version_is_below_another_one_as_a_number_is(one: int, other: int, zeros: int) -> None:
    assert is_below("0" * zeros + str(one), str(other)) == (one < other)


def test_a_resource_version_of_thousands_of_digits_has_its_place_in_the_order() -> None:
    assert is_below("8" * 5000, "9" * 5000)
    assert is_below("9" * 5000, "1" + "0" * 5000)
    assert not is_below("9" * 5000, "7")


@pytest.mark.parametrize("text", [None, "", "1.5", "-1", "abc", "\u0663", "\u00b2"])
def test_what_is_no_number_is_below_nothing(text: str | None) -> None:
    assert not is_below(text, "9")
    assert not is_below("1", text)

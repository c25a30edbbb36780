# SPDX-License-Identifier: Apache-2.0
"""A JWT is refreshed at 4/5 of its remaining life, any other token at an interval."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.client.watch.manager import refresh_interval
from watcher_sync.client.watch.refresher import MIN_REFRESH_SECONDS, expiry, refresh_in

NOW = 1_800_000_000.0


def unsigned(body):
    return "e30." + base64.urlsafe_b64encode(body.encode()).decode().rstrip("=") + ".c2ln"


@pytest.mark.parametrize(("life", "expected"), [(1000, 800), (100, 80), (0, 1), (-500, 1)])
def test_a_jwt_is_refreshed_at_four_fifths_of_its_remaining_life(life, expected):
    assert refresh_in(unsigned(json.dumps({"exp": NOW + life})), NOW, 600) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "opaque",
        "a.b.c",
        "a.b",
        unsigned("[]"),
        unsigned("{}"),
        unsigned('{"exp": "x"}'),
        unsigned('{"exp": 1e999}'),
    ],
)
def test_any_other_token_is_refreshed_at_the_interval(text):
    assert refresh_in(text, NOW, 450) == 450


def test_an_expiry_with_a_fraction_is_read():
    assert expiry(unsigned(json.dumps({"exp": 12.5}))) == 12.5


@given(text=st.text())
def test_no_text_breaks_the_schedule(text):
    assert refresh_in(f"a.{text}.c", NOW, 0) >= MIN_REFRESH_SECONDS


@pytest.mark.parametrize("life", [10.0, 100.0, 119.0, 121.0, 240.0, 300.0, 1000.0, 3600.0, 86_400.0])
def test_a_token_of_keystone_is_replaced_while_it_is_valid(life):
    """keystoneauth returns the same token until it has less than 120 seconds left."""
    elapsed, refreshes = 0.0, 0
    while life - elapsed >= 120 or refreshes == 0:
        elapsed += refresh_interval(life - elapsed)
        refreshes += 1
        assert elapsed < life
    assert refreshes <= life / 600 + 2


def test_a_token_of_unknown_life_is_refreshed_every_ten_minutes():
    assert refresh_interval(None) == 600

# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""A small registration stays small: levels are computed when they are needed, and never stored or listed."""

from __future__ import annotations

import json

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.api.conftest import application, client, conf, store  # noqa: F401 - fixtures
from tests.unit.extensions.vnf.api.test_instances import DEMO, PATH, demo
from watcher_sync.extensions.vnf.model import levels

VDU = {"workload": {"kind": "Deployment", "name": "vdu"}, "initial": 1}


def bomb(vdus: int, steps: int) -> dict[str, object]:
    """A registration of few bytes whose table of levels would have ``vdus * (steps + 1)`` entries."""
    names = [f"V{number}" for number in range(vdus)]
    aspect = {"max_scale_level": steps, "deltas": dict.fromkeys(names, 1)}
    return demo(vdus=dict.fromkeys(names, VDU), aspects={"all": aspect})


def test_a_registration_whose_levels_explode_is_refused_naming_the_field(client):
    body = bomb(1000, 1000)
    assert len(json.dumps(body)) < 100_000
    refused = client.simulate_post(PATH, json=body)
    assert refused.status_code == 400, f"{refused.status_code}, an answer of {len(refused.content)} bytes"
    assert "/vdus" in [error["pointer"] for error in refused.json["errors"]]
    assert client.simulate_get(PATH).json["vnf_instances"] == []


def test_the_product_of_vdus_and_levels_is_bounded_naming_the_aspect(client):
    refused = client.simulate_post(PATH, json=bomb(100, 1000))
    assert refused.status_code == 400, refused.text[:200]
    (error,) = refused.json["errors"]
    assert error["pointer"] == "/aspects/all/max_scale_level"
    assert "10000" in error["detail"]


def test_the_largest_registration_makes_no_more_bytes_than_it_has(client, store):
    body = bomb(100, 99)
    made = client.simulate_post(PATH, json=body)
    assert made.status_code == 201, made.text[:200]
    sent = len(json.dumps(body))
    assert len(made.content) < 4 * sent
    listed = client.simulate_get(PATH)
    assert len(listed.content) < 4 * sent
    with store.connect() as connection:
        (delta,) = connection.execute(sa.select(store.tables.journal.c.delta)).scalars()
        row = connection.execute(sa.select(store.tables.entities["vnf_instance"])).mappings().one()
    assert len(msgspec.json.encode(delta)) < 4 * sent
    assert len(msgspec.json.encode(dict(row))) < 4 * sent
    assert "levels" not in row
    assert "levels" not in delta


def test_an_ordinary_registration_is_still_accepted(client):
    assert client.simulate_post(PATH, json=DEMO).status_code == 201
    assert client.simulate_post(PATH, json=bomb(1, 1000)).status_code == 201
    assert client.simulate_post(PATH, json=bomb(50, 199)).status_code == 201


def table(vdus, aspect):
    """The levels of an aspect, one after the other, as the contract defines them."""
    rows = [{vdu: vdus[vdu]["initial"] for vdu in aspect["deltas"]}]
    for step in range(aspect["max_scale_level"]):
        rows.append(
            {
                vdu: rows[-1][vdu] + (given[step] if isinstance(given, list) else given)
                for vdu, given in aspect["deltas"].items()
            }
        )
    return rows


@st.composite
def registrations(draw):
    """VDUs, an aspect that scales them, and numbers of pods in and around its levels."""
    names = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
    steps = draw(st.integers(0, 5))
    delta = st.one_of(st.integers(1, 4), st.lists(st.integers(1, 4), min_size=steps, max_size=steps + 2))
    vdus = {name: {"initial": draw(st.integers(0, 3))} for name in names}
    aspect = {"max_scale_level": steps, "deltas": {name: draw(delta) for name in names}}
    rows = table(vdus, aspect)
    near = {name: draw(st.sampled_from(rows))[name] + draw(st.integers(-2, 2)) for name in names}
    observed = draw(st.one_of(st.sampled_from(rows), st.just({n: max(v, 0) for n, v in near.items()})))
    return vdus, aspect, dict(observed)


@pytest.mark.slow
@given(registrations())
def test_the_computed_level_is_the_one_that_an_enumeration_of_all_levels_finds(drawn):
    vdus, aspect, observed = drawn
    rows = table(vdus, aspect)
    fitting = [n for n, row in enumerate(rows) if all(observed[vdu] >= count for vdu, count in row.items())]
    found = levels.match(vdus, aspect, observed)
    assert found.nearest == max(fitting, default=None)
    assert found.exact == (rows.index(observed) if observed in rows else None)


@pytest.mark.parametrize("deltas", [1, [1] * 1000])
def test_a_level_among_a_thousand_is_found_without_a_table(deltas):
    found = levels.match({"A": {"initial": 5}}, {"max_scale_level": 1000, "deltas": {"A": deltas}}, {"A": 707})
    assert (found.exact, found.nearest) == (702, 702)

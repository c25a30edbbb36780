# SPDX-License-Identifier: Apache-2.0
"""Two engines of different groups and an operator's replay write to one database at once."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.functional.engine.driving import Installation, Line, scaled
from watcher_sync.model.model import Model
from watcher_sync.testing.nova.cloud import CloudSimulator, write_jsonl


def test_three_writers_of_one_cloud_keep_one_gapless_journal_and_agree_on_the_model(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    postgresql_url: str,
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    first, second = line("first"), line("second")
    # Small batches: on a busy machine the writers seldom run at the same moment.
    site = install(postgresql_url, engine__batch_size=25)
    site.upgrade()
    cloud = CloudSimulator(seed=50, hosts=40, instances=300)
    history = cloud.history(3 * scaled(1_200))
    # Dealt out like cards: every writer has to do with every entity, and none sees any in order.
    recording = tmp_path / "third.jsonl"
    write_jsonl(recording, history[2::3])
    configs = [
        site.config(engine__enabled_sources=name, engine__group=name, **_under(one.source(name)))
        for name, one in (("first", first), ("second", second))
    ]
    following = Model(site.kinds)
    began = time.monotonic()
    engines = [site.engine(config) for config in configs]
    for engine in engines:
        engine.wait_until_leading()
    command = [*site.command("watcher-sync-manage", site.config()), "replay", "-f", "json", str(recording)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, env=site.environment) as third,
        first.publishing(history[0::3], rate=400),
        second.publishing(history[1::3], rate=400),
    ):
        while third.poll() is None:
            site.store.catch_up(following)
        assert third.stdout is not None
        told = msgspec.json.decode(third.stdout.read())
    assert third.returncode == 0
    assert told["read"] == len(history[2::3])
    for config, one, engine in zip(configs, (first, second), engines, strict=True):
        site.drain(config, one, engine=engine)
    figure(f"{len(history)} events of three writers in {time.monotonic() - began:.1f} s, {site.head()} changes")
    rows = site.rows()
    assert {row.source for row in rows} == {"first", "second", "replay"}
    turns = sum(one.source != other.source for one, other in itertools.pairwise(rows))
    figure(f"the writer changed {turns} times in the journal")
    assert turns > 2, "they did not write at the same time"
    site.check(cloud.reported())
    # A replica that followed all the way is where one that reads everything afterwards is.
    site.store.catch_up(following)
    tables = site.store.load()
    assert following.generation == tables.generation
    for kind in site.kinds:
        assert {i: following.get(kind, i) for i in following.snapshot().ids(kind)} == {
            i: tables.get(kind, i) for i in tables.snapshot().ids(kind)
        }


def _under(options: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "__"): value for name, value in options.items()}

# SPDX-License-Identifier: Apache-2.0
"""Whatever is done to one of the two streams, every reader ends in the truth, or says that it is not whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.client.published_log import FollowedLog, published_log
from tests.functional.log.jetstream_backup import back_up_stream, restore_stream
from tests.functional.log.jetstream_region import Region, refusal_of, region_on, wait_for_all
from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.functional.sources.test_region_log import configured, following
from tests.functional.storage.conftest import opened
from tests.services.servers import Server, nats_programs, private_nats, private_nats_cluster
from tests.waiting import wait_until
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

MakeRegion = Callable[..., contextlib.AbstractContextManager[Region]]


@pytest.fixture(scope="module", params=nats_programs())
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with private_nats(executable=request.param) as made:
        yield made


@pytest.fixture(scope="module")
def dcm(server: Server) -> Iterator[Dcm]:
    with dcm_of(server.url) as made:
        yield made


@pytest.fixture
def store(migrated_sqlite_url: str) -> Iterator[Store]:
    store = opened(migrated_sqlite_url, builtin_kinds())
    yield store
    store.dispose()


@pytest.fixture
def make(store: Store, dcm: Dcm, server: Server, tmp_path: Path) -> MakeRegion:
    return lambda **options: region_on(store, dcm, server.url, tmp_path, **options)


HARMS: dict[str, Callable[[Region], None]] = {
    "the changes are deleted": lambda region: region.delete(region.stream),
    "the model is deleted": lambda region: region.delete(region.model),
    "the model is purged": lambda region: region.purge(region.model),
    "the changes are purged": lambda region: region.purge(region.stream),
    "both are deleted": lambda region: region.delete(region.model, region.stream),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_readers_of_a_stream_that_was_harmed_beside_its_outlet_have_the_truth(
    make: MakeRegion, harm: Callable[[Region], None], is_busy: bool
) -> None:
    with make() as region, region.readers() as running:
        region.write(30)
        running.wait()
        wait_until(region.is_mirrored)
        harm(region)
        if is_busy:
            region.write(5)
        wait_for_all(region, running)
        region.write(15, first=3)
        wait_for_all(region, running)


@pytest.mark.parametrize("count", [0, 30, 60], ids=["fewer", "as many", "more"])
def test_readers_of_changes_that_were_made_again_with_other_messages_have_the_truth(
    make: MakeRegion, count: int
) -> None:
    with make() as region, region.readers() as running:
        region.write(30)
        running.wait()
        wait_until(region.is_mirrored)
        region.stop()
        region.delete(region.stream)
        region.write(10)
        region.start()
        region.write(count)
        wait_for_all(region, running)


def test_readers_of_changes_from_a_backup_have_the_truth(make: MakeRegion) -> None:
    with make() as region, region.readers() as running:
        region.write(5)
        running.wait()
        backup = back_up_stream(region.dcm, region.stream)
        region.write(30)
        running.wait()
        wait_until(region.is_mirrored)
        region.delete(region.stream)
        restore_stream(region.dcm, backup)
        wait_for_all(region, running)
        region.write(40)
        wait_for_all(region, running)


def test_a_model_of_earlier_changes_is_refused_by_name_where_streams_are_only_verified(make: MakeRegion) -> None:
    with make() as region, region.readers() as running:
        region.write(30)
        running.wait()
        wait_until(region.is_mirrored)
        region.stop()
        config = region.info(region.stream).config
        region.delete(region.stream)
        region.dcm.make_stream(region.stream, config.subjects[0], duplicate_window=1)
        region._options["stream_mode"] = "verify"
        region.start()
        wait_until(lambda: f"delete {region.model}" in region.detail(), what="an outlet that refuses the model")
        refusal = f"{region.model} is no copy of {region.stream}"
        wait_until(lambda: refusal in running.states.source.status().detail)
        wait_until(lambda: refusal in refusal_of(region.listed))  # a busy server may be silent at first
        region.delete(region.model)
        region._options["stream_mode"] = "create"
        region.stop()
        region.start()
        wait_for_all(region, running)


def test_readers_that_are_up_to_date_follow_the_changes_while_the_model_is_away(
    own_nats: Server, tmp_path: Path
) -> None:
    with published_log(own_nats.url) as log:
        log.fill(5)
        log.snapshot()
        wait_until(log.mirrored)
        with FollowedLog(log) as changes, following(configured(tmp_path, log)) as states:
            for number in range(2):
                log.write("e-0", n=number)
                changes.wait_for(log)
                states.wait_for(log)
                if not number:
                    log.stop_mirroring()
                own_nats.stop()
                own_nats.start()
            assert changes.reasons() == ["no_position"]
            assert len(states.listed) == 1


def test_a_model_that_was_made_before_its_changes_is_a_copy_of_them(make: MakeRegion, dcm: Dcm) -> None:
    with make() as region:
        region.stop()
        config, model = region.info(region.stream).config, region.info(region.model).config
        region.delete(region.model, region.stream)
        dcm.do(dcm.js.add_stream(model))
        dcm.do(dcm.js.add_stream(config))
        region._options["stream_mode"] = "verify"
        region.start()
        with region.readers() as running:
            wait_for_all(region, running)


def test_a_cluster_whose_changes_are_deleted_has_the_truth_again(store: Store, tmp_path: Path) -> None:
    with (
        private_nats_cluster(3) as nodes,
        dcm_of(nodes[0].url) as dcm,
        region_on(store, dcm, nodes[0].url, tmp_path, replicas=3) as region,
        region.readers() as running,
    ):
        region.write(30)
        running.wait()
        wait_until(region.is_mirrored)
        region.delete(region.stream)
        wait_for_all(region, running)
        region.write(40)
        wait_for_all(region, running)

# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' part of the demo, without the demo around it."""

from __future__ import annotations

import argparse
import configparser
import pathlib
from collections.abc import Iterator

import pytest

from tests.modelled import model_of
from watcher_sync.demo.kubernetes import Kubernetes
from watcher_sync.demo.limits import LIMITS
from watcher_sync.exceptions import WatcherSyncError


def options(*, kubernetes: bool = True, rate: float = 100.0) -> argparse.Namespace:
    return argparse.Namespace(kubernetes=kubernetes, rate=rate, seed=1)


@pytest.fixture
def part(tmp_path: pathlib.Path) -> Iterator[Kubernetes]:
    with Kubernetes.begun(options(), LIMITS, tmp_path) as part:
        yield part
        part.stop()


def test_where_it_is_not_wanted_there_is_nothing_to_follow_to_wait_for_or_to_compare(tmp_path: pathlib.Path) -> None:
    with Kubernetes.begun(options(kubernetes=False), LIMITS, tmp_path) as part:
        part.register("http://127.0.0.1:1")
        part.stop()
        snapshot = model_of({}, observed=False).snapshot()
        assert part.settled(snapshot)
        assert (part.config, part.truth(), part.operations(), part.summary(snapshot)) == ("", {}, "", [])
        assert part.failure is None
    assert list(tmp_path.iterdir()) == []


def test_the_source_reads_a_kubeconfig_in_a_folder_whose_name_has_a_dollar(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a$b"
    folder.mkdir()
    with Kubernetes.begun(options(), LIMITS, folder) as part:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(part.config)
        section = parser["source_edge"]
        assert (section["driver"], section["cluster"]) == ("kubernetes", "edge")
        assert pathlib.Path(section["kubeconfig"].replace("$$", "$")).is_file()


def test_an_api_that_refuses_a_registration_ends_the_demo_with_the_name_of_the_function(part: Kubernetes) -> None:
    elsewhere = part._cluster.server.url  # type: ignore[union-attr]
    with pytest.raises(WatcherSyncError, match="answers 404 to the registration of amf"):
        part.register(elsewhere)


def test_an_api_that_does_not_answer_ends_the_demo(part: Kubernetes) -> None:
    with pytest.raises(WatcherSyncError, match="amf cannot be registered"):
        part.register("http://127.0.0.1:1")


def test_it_is_settled_when_the_model_has_every_pod_and_workload_as_it_is(part: Kubernetes) -> None:
    part.stop()
    truth = part.truth()
    assert part.settled(model_of(truth).snapshot())
    truth["pod"].popitem()
    assert not part.settled(model_of(truth).snapshot())


def test_it_is_registered_once_the_model_has_every_object_and_every_instance(part: Kubernetes) -> None:
    truth = part.truth()
    assert part.is_registered(model_of(truth).snapshot())
    unregistered = truth | {"vnf_instance": {}}
    assert not part.is_registered(model_of(unregistered).snapshot())
    truth["pod"].popitem()
    assert not part.is_registered(model_of(truth).snapshot())


def test_what_is_observed_is_waited_for_and_compared(part: Kubernetes) -> None:
    part.stop()
    unseen, seen = (model_of(part.truth(), observed=observed).snapshot() for observed in (False, True))
    assert not part.settled(unseen)
    assert {difference.field for difference in part.differences(unseen)} > {"state", "observed"}
    assert part.settled(seen)
    assert part.differences(seen) == []


def test_vnf_instances_are_shown_by_name_with_levels_and_pods_that_count_observed_or_not(part: Kubernetes) -> None:
    part.stop()
    for observed, state, level in ((False, "UNKNOWN", "-"), (True, "SYNCED", "0")):
        rows = part.vnfs(model_of(part.truth(), observed=observed).snapshot())
        assert [(row.name, row.levels, row.pods) for row in rows] == [
            ("amf", f"workers {level}/2", 2),
            ("du-agent", "", 3),
            ("udr", f"shards {level}/2", 2),
            ("upf", f"sessions {level}/3", 2),
        ]
        assert {row.state for row in rows} == {state}
        assert {row.held_by for row in rows} == {""}

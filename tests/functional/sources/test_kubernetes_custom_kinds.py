# SPDX-License-Identifier: Apache-2.0
"""A source follows kinds that only its option names; the cluster may serve one later, and no longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.functional.sources.reflecting import Engine, following, make_source
from tests.waiting import wait_until
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.kubernetes.wire.custom_kinds import parse_entries
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import pod

KINDS = ["a.example/v1/Thing state=.status.phase ip=.status.addresses[0]", "b.example/v1/Thing"]


@pytest.fixture
def engine() -> Engine:
    engine = Engine()
    engine.handler.custom_kinds = {("edge", custom.title.lower()): custom for custom in parse_entries(KINDS)}
    return engine


def serve(server: KubernetesServer, group: str = "a.example", *, namespaced: bool = True) -> None:
    server.register(group, "v1", f"{group[0]}things", "Thing", namespaced=namespaced)


def thing(name: str, phase: str = "Ready", group: str = "a.example") -> dict[str, Any]:
    status = {"phase": phase, "addresses": ["10.0.0.1"]}
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}, "status": status}


def things(engine: Engine) -> list[tuple[str, str, str | None]]:
    return sorted((each.api_group, each.name, each.state) for each in engine.snapshot().all("custom_object"))


def test_objects_of_a_custom_kind_are_followed_as_they_come_change_and_go(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        serve(server)
        serve(server, "b.example", namespaced=False)
        server.create(thing("one", "Pending"))
        server.create(thing("other", group="b.example"))
        with following(server, tmp_path, engine, kinds=KINDS) as source:
            assert things(engine) == [("a.example", "one", "Pending"), ("b.example", "other", None)]
            server.patch("athings", "one", {"status": {"phase": "Ready"}})
            server.create(thing("two"))
            expected = [("a.example", "one", "Ready"), ("a.example", "two", "Ready"), ("b.example", "other", None)]
            wait_until(lambda: things(engine) == expected)
            server.delete("athings", "one")
            wait_until(lambda: things(engine) == expected[1:])
            counts = wait_until(
                lambda: (c := engine.snapshot().get("cluster", "edge")) and c.counts and c.counts.keys()
            )
            assert counts == {"Pod", "Thing.a.example", "Thing.b.example"}
            assert [r.lister_watcher.name for r in source.reflectors] == ["pods", "athings", "bthings"]


def test_an_update_that_changes_nothing_of_the_model_is_no_event(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        serve(server)
        server.create(thing("one", "Pending"))
        with following(server, tmp_path, engine, kinds=KINDS[:1]):
            for beat in range(5):
                server.patch("athings", "one", {"status": {"heartbeat": beat}})
                server.patch("athings", "one", {"metadata": {"annotations": {"beat": str(beat)}}})
            server.patch("athings", "one", {"status": {"phase": "Ready"}})
            wait_until(lambda: things(engine) == [("a.example", "one", "Ready")])
            server.patch("athings", "one", {"metadata": {"labels": {"a": "b"}}})
            wait_until(lambda: engine.types("thing.a.example") == ["added", "listed", "modified", "modified"])


def test_a_kind_that_the_cluster_serves_later_is_followed_without_a_restart(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        server.create(pod("p"))
        with following(server, tmp_path, engine, kinds=KINDS[:1], synced=False, stale_after=1.0) as source:
            cluster = wait_until(lambda: (c := engine.snapshot().get("cluster", "edge")) and c.unlisted and c)
            assert cluster.unlisted.keys() == {"Thing.a.example"}
            reason = "the server does not serve the kind Thing in /apis/a.example/v1"
            assert cluster.unlisted["Thing.a.example"]["reason"] == reason
            assert (cluster.has_synced, engine.names()) == (True, ["p"])
            assert source.status().detail == f"Thing: {reason}"
            serve(server)
            server.create(thing("one"))
            wait_until(lambda: things(engine) == [("a.example", "one", "Ready")])
            wait_until(lambda: engine.snapshot().get("cluster", "edge").unlisted is None)


def test_a_group_with_a_hundred_versions_is_reported_and_costs_the_other_kinds_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    with KubernetesServer() as server:
        serve(server)
        for number in range(100):
            server.register("c.example", f"v{number}", "others", "Other")
        server.load([pod("p"), thing("one")])
        kinds = [KINDS[0], "c.example/Thing"]
        with following(server, tmp_path, engine, kinds=kinds, synced=False, stale_after=1.0):
            cluster = wait_until(lambda: (c := engine.snapshot().get("cluster", "edge")) and c.unlisted and c)
            reason = "discovery of /apis/c.example: Expected `array` of length <= 64 - at `$.versions`"
            assert {name: each["reason"] for name, each in cluster.unlisted.items()} == {"Thing.c.example": reason}
            wait_until(lambda: (engine.names(), things(engine)) == (["p"], [("a.example", "one", "Ready")]))
            assert not [r for r in server.requests.last() if r.path.startswith("/apis/c.example/")]


def test_a_kind_that_goes_away_takes_its_objects_along_and_may_come_back(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        serve(server)
        server.load([thing("one"), thing("two")])
        with following(server, tmp_path, engine, kinds=KINDS[:1], stale_after=1.0) as source:
            server.unregister("athings")
            wait_until(lambda: things(engine) == [])
            assert engine.types("thing.a.example") == ["added", "added", "listed", "deleted", "deleted"]
            wait_until(lambda: "does not serve the kind Thing" in (source.status().detail or ""))
            wait_until(lambda: engine.snapshot().get("cluster", "edge").unlisted)
            server.register("a.example", "v1", "renamed", "Thing", namespaced=False)  # as another definition
            server.create(thing("new"))
            wait_until(lambda: things(engine) == [("a.example", "new", "Ready")])
            wait_until(lambda: not source.status().detail)


def following_lines(caplog: Any) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelname == "INFO" and "following" in r.getMessage()]


def test_a_version_that_ceases_costs_a_kind_without_one_nothing(engine: Engine, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("INFO")
    with KubernetesServer() as server:
        old = server.register("a.example", "v1beta1", "athings", "Thing")
        server.load(
            [{**thing("one"), "apiVersion": "a.example/v1beta1"}, {**thing("two"), "apiVersion": old.api_version}]
        )
        with following(server, tmp_path, engine, kinds=["a.example/Thing state=.status.phase"]) as source:
            before = [(e.id, e.resource_version) for e in engine.snapshot().all("custom_object")]
            serve(server)  # v1
            server.unserve(old)
            wait_until(
                lambda: (
                    [r.path for r in server.requests.last() if r.verb == "watch"][-1] == "/apis/a.example/v1/athings"
                )
            )
            wait_until(lambda: engine.types("thing.a.example").count("listed") == 2)
            assert [(e.id, e.resource_version) for e in engine.snapshot().all("custom_object")] == before
            server.patch("athings", "one", {"status": {"phase": "Failed"}})
            wait_until(lambda: things(engine) == [("a.example", "one", "Failed"), ("a.example", "two", "Ready")])
            assert engine.types("thing.a.example") == ["added", "added", "listed", "listed", "modified"]
            wait_until(lambda: not source.status().detail)
    names = ["source edge: athings: following version v1beta1", "source edge: athings: following version v1"]
    assert following_lines(caplog) == names


def test_a_named_version_that_ceases_deletes_nothing_and_says_which_are_served(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        old = server.register("a.example", "v1", "athings", "Thing")
        server.create(thing("one"))
        with following(server, tmp_path, engine, kinds=KINDS[:1], stale_after=1.0) as source:
            server.register("a.example", "v2", "athings", "Thing")
            server.unserve(old)
            reason = "Thing: the server does not serve the kind Thing in /apis/a.example/v1, but in v2"
            wait_until(lambda: source.status().detail == reason)
            wait_until(lambda: engine.snapshot().get("cluster", "edge").unlisted)
            assert things(engine) == [("a.example", "one", "Ready")]
            serve(server)
            server.create(thing("two"))
            wait_until(lambda: things(engine) == [("a.example", "one", "Ready"), ("a.example", "two", "Ready")])
        assert "absent" not in engine.types("thing.a.example")


def test_a_kind_without_a_version_takes_the_preferred_one_that_has_it(
    engine: Engine, tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level("INFO")
    with KubernetesServer() as server:
        server.register("a.example", "v3", "more", "More")
        for version in ("v1", "v2beta1", "v2"):
            server.register("a.example", version, "athings", "Thing")
        server.create(thing("one"))
        with following(server, tmp_path, engine, kinds=["a.example/Thing"], resources=["pods", "a.example/More"]):
            wait_until(lambda: len(things(engine)) == 1)
    assert sorted(following_lines(caplog)) == [
        "source edge: athings: following version v2", "source edge: more: following version v3",
    ]  # fmt: skip


def test_a_kind_that_went_away_unseen_deletes_nothing_by_itself(engine: Engine, tmp_path: Path) -> None:
    """The delete guard of the reconciliation decides about what discovery lacks."""
    with KubernetesServer() as server:
        serve(server)
        server.create(thing("one"))
        with following(server, tmp_path, engine, kinds=KINDS[:1]):
            pass
        server.unregister("athings")
        with following(server, tmp_path, engine, kinds=KINDS[:1], synced=False, stale_after=1.0) as source:
            wait_until(lambda: "does not serve the kind Thing" in (source.status().detail or ""))
            wait_until(lambda: engine.snapshot().get("cluster", "edge").unlisted)
        assert things(engine) == [("a.example", "one", "Ready")]


def test_the_log_says_once_that_a_kind_is_not_served(engine: Engine, tmp_path: Path, caplog: Any) -> None:
    options = {"kinds": KINDS[:1], "synced": False, "stale_after": 1.0}

    def lines() -> list[str]:
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        return [line for line in warnings if "does not serve" in line]

    with KubernetesServer() as server, following(server, tmp_path, engine, **options):
        wait_until(lines)
        server.requests.clear()
        wait_until(lambda: sum(r.path == "/apis/a.example/v1" for r in server.requests.last()) >= 3)
    assert lines() == [
        "source edge: Thing: unavailable, retrying: the server does not serve the kind Thing in /apis/a.example/v1"
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kinds": ["Thing"]}, "kinds: 'Thing' is neither group/Kind nor group/version/Kind"),
        ({"kinds": [*KINDS, "a.example/v2/Thing"]}, "kinds: Thing.a.example is given twice"),
        ({"kinds": [*KINDS, "a.example/v1/THING"]}, "kinds: THING.a.example is given twice"),
        (
            {"resources": ["batch/v1/Job", "a.example/v1/Job", "batch/v2/Job"]},
            "resources: Job.batch is given twice",
        ),
        ({"resources": ["pods", "v1/Pod"]}, "resources: Pod is given twice"),
        ({"kinds": ["v1/Pod"]}, "kinds: Pod is a pod or a workload, which resources names"),
        (
            {"kinds": KINDS, "resources": ["pods", "a.example/v1/Thing"]},
            "kinds: Thing.a.example is a pod or a workload, which resources names",
        ),
        ({"kinds": [], "resources": []}, "resources: names nothing to follow"),
    ],
)
def test_an_entry_that_cannot_work_is_one_error_that_names_source_and_option(options: Any, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_source(None, **options)
    assert str(raised.value) == f"[source_edge] {says}"


def test_a_source_may_follow_custom_kinds_alone(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        serve(server)
        server.create(thing("one"))
        with following(server, tmp_path, engine, kinds=KINDS[:1], resources=[]):
            assert things(engine) == [("a.example", "one", "Ready")]


def test_a_kind_that_is_defined_again_with_another_scope_is_discovered_again(engine: Engine, tmp_path: Path) -> None:
    """It is away for such a short time that no request meets its absence."""
    with KubernetesServer() as server:
        serve(server, namespaced=False)
        server.create(thing("old"))
        with following(server, tmp_path, engine, kinds=KINDS[:1], namespaces=["a"]):
            server.unregister("athings")
            serve(server)
            for namespace in ("a", "b"):
                made = thing(f"in-{namespace}")
                server.create({**made, "metadata": {**made["metadata"], "namespace": namespace}})
            wait_until(lambda: things(engine) == [("a.example", "in-a", "Ready")])

# SPDX-License-Identifier: Apache-2.0
"""Two installations: what was written globally before the region was followed, and what can be written after."""

from __future__ import annotations

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.sources.federated import Member, Partition
from tests.functional.sources.jetstream import dcm_of
from tests.services.ensure import url_of
from tests.unit.extensions.vnf.api.test_instances import DEMO
from tests.waiting import deadline, wait_until

SITE = "north"
INSTANCES = "service_type_instances"
SPEC = {"service_type": "vm"}


class Published(Partition):
    """A region with a log, and an API of its own."""

    parts: ClassVar[Mapping[str, str]] = Member.parts


def ask(member: Member, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    """Status and document of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{member.url}/v1/{path}", data, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=deadline(60)) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def names(member: Member) -> dict[str, str]:
    """The instances of a member: id -> name."""
    found = ask(member, "GET", INSTANCES)[1][INSTANCES]
    return {each["id"]: each["instance_name"] for each in found}


@pytest.fixture
def stream() -> Iterator[str]:
    name = f"watcher-sync-test-{secrets.token_hex(6)}"
    yield name
    with dcm_of(url_of("nats")) as dcm:
        dcm.delete_stream(f"{name}-model")
        dcm.delete_stream(name)


@pytest.fixture(params=["federation", "federation_log"])
def pair(request: pytest.FixtureRequest, install: Callable[..., Installation], tmp_path: Path) -> tuple[Member, Member]:
    """A region and the global installation, whose API is served; the region is not followed yet."""
    site = install(f"sqlite:///{tmp_path / 'region.sqlite'}")
    if request.param == "federation_log":
        region: Member = Published(request.getfixturevalue("stream"), site, [url_of("nats")])
    else:
        region = Member(SITE, site)
    whole = Member("global", install(f"sqlite:///{tmp_path / 'global.sqlite'}"))
    region.start()
    region.wait_until_serving()
    whole.start("api")
    whole.wait_until_serving()
    return region, whole


def test_what_was_made_changed_and_deleted_before_becomes_what_the_region_has(pair: tuple[Member, Member]) -> None:
    region, whole = pair
    for name in ("zz", "dead"):
        assert ask(region, "PUT", f"{INSTANCES}/{name}", {**SPEC, "instance_name": "theirs"})[0] == 201
    for name in ("zz", "dead", "only-here"):
        mine = {**SPEC, "instance_name": "mine", "provider_name": "p"}
        assert ask(whole, "PUT", f"{INSTANCES}/{SITE}:{name}", mine)[0] == 201
    assert ask(whole, "DELETE", f"{INSTANCES}/{SITE}:dead")[0] == 204
    assert ask(region, "PUT", "vnf_instances/v", {**DEMO, "name": "theirs"})[0] == 201
    assert ask(whole, "PUT", f"vnf_instances/{SITE}:v", DEMO)[0] == 201
    lease = {"operation": "SCALE", "holder": "lcm"}
    assert ask(whole, "POST", f"vnf_instances/{SITE}:v/operations", lease)[0] == 201

    whole.follow(SITE, region)
    whole.start("engine")
    theirs = {f"{SITE}:zz": "theirs", f"{SITE}:dead": "theirs"}
    wait_until(lambda: names(whole) == theirs, 60, "the instances of the region")
    wait_until(lambda: ask(whole, "GET", f"vnf_instances/{SITE}:v")[1].get("name") == "theirs", 60, "the VNF instance")
    found = ask(whole, "GET", f"{INSTANCES}/{SITE}:zz")[1]
    assert (found["provider_name"], found["agent_name"]) == (None, None), "a facet that was written here"
    assert ask(region, "DELETE", f"{INSTANCES}/zz")[0] == 204
    wait_until(lambda: names(whole) == {f"{SITE}:dead": "theirs"}, 60, "the deletion")


def test_no_request_writes_what_is_followed_and_all_of_it_can_be_read(pair: tuple[Member, Member]) -> None:
    """The API of the global installation has no section of a source in its configuration."""
    region, whole = pair
    assert ask(region, "PUT", f"{INSTANCES}/zz", SPEC)[0] == 201
    assert ask(region, "PUT", "vnf_instances/v", DEMO)[0] == 201
    whole.follow(SITE, region)
    whole.start("engine")
    wait_until(lambda: ask(whole, "GET", f"vnf_instances/{SITE}:v")[0] == 200, 60, "the VNF instance")
    wait_until(lambda: f"{SITE}:zz" in names(whole), 60, "the instance")
    before = whole.site.head()
    for method, path, body in (
        ("PUT", f"{INSTANCES}/{SITE}:zz", SPEC), ("PUT", f"{INSTANCES}/{SITE}:new", SPEC),
        ("POST", INSTANCES, {**SPEC, "id": f"{SITE}:new"}), ("DELETE", f"{INSTANCES}/{SITE}:zz", None),
        ("PUT", f"vnf_instances/{SITE}:v", DEMO), ("POST", "vnf_instances", {**DEMO, "id": f"{SITE}:new"}),
        ("DELETE", f"vnf_instances/{SITE}:v", None), ("POST", f"vnf_instances/{SITE}:v/sync", None),
        ("POST", f"vnf_instances/{SITE}:v/operations", {"operation": "SCALE", "holder": "lcm"}),
    ):  # fmt: skip
        status, problem = ask(whole, method, path, body)
        assert status == 409, (method, path, problem)
        assert f"belongs to the site {SITE} (source {SITE})" in problem["detail"]
    assert whole.site.head() == before
    refused = whole.site.run("watcher-sync-manage", "entity", "reset", "--kind", INSTANCES, f"{SITE}:zz")
    assert refused.returncode == 1
    assert "change it in its region" in refused.stderr

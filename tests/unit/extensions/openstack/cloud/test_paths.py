# SPDX-License-Identifier: Apache-2.0
"""Ids that a cloud lists, and that would be a part of another path."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.json_api import Asked, JsonApi
from tests.sites import parsed
from tests.waiting import deadline
from watcher_sync.extensions.openstack.capacity.placement import PlacementProvider
from watcher_sync.extensions.openstack.cloud.client import CloudClient, OpenStackCloud
from watcher_sync.extensions.openstack.cloud.listing import resource
from watcher_sync.extensions.openstack.reconcile.listing import NovaApi
from watcher_sync.extensions.openstack.reconcile.sight import ServerUnseen

NO_SEGMENTS = ["", ".", ".."]
QUOTED = {"a/b": "a%2Fb", "../x": "..%2Fx", "a?b": "a%3Fb", "a#b": "a%23b", "%2e%2e": "%252e%252e", "...": "..."}


@pytest.fixture
def service() -> Iterator[JsonApi]:
    with JsonApi(lambda asked: (200, {"path": asked.path})) as made:
        yield made


@pytest.fixture
def conf(service: JsonApi, tmp_path: Path) -> Any:
    file = tmp_path / "watcher-sync.conf"
    file.write_text(f"[reconcile_nova]\nauth_type = none\nendpoint = {service.url}/rack\n")
    made = parsed(["--config-file", str(file)])
    made.register_opts(PlacementProvider.options, group="capacity_provider_placement")
    return made


@pytest.fixture
def client(conf: Any) -> CloudClient:
    return OpenStackCloud(conf).client(time.monotonic() + deadline(30))


@pytest.mark.parametrize("entity_id", NO_SEGMENTS)
def test_an_id_that_is_no_segment_of_a_path_is_no_request_and_not_gone(
    service: JsonApi, client: CloudClient, entity_id: str
) -> None:
    service.answer = lambda asked: (404, {})
    with pytest.raises(ValueError, match=f"^the id {entity_id!r} cannot be part of a path$"):
        resource(client, "rack", "/slots", entity_id, version="1.7")
    with pytest.raises(ServerUnseen, match=f"^compute: the id {entity_id!r} cannot be part of a path$"):
        NovaApi(client).server(entity_id)
    assert service.asked == []


@pytest.mark.parametrize("entity_id", QUOTED)
def test_an_id_with_characters_of_a_url_is_one_segment(client: CloudClient, entity_id: str) -> None:
    answer = resource(client, "rack", "/slots", entity_id, version="1.7")
    assert answer == {"path": f"/rack/slots/{QUOTED[entity_id]}"}


@pytest.mark.parametrize("odd", [*NO_SEGMENTS, *QUOTED])
def test_the_odd_id_of_a_resource_provider_costs_itself_alone(service: JsonApi, conf: Any, odd: str) -> None:
    def answer(asked: Asked) -> tuple[int, Any]:
        path = asked.path.removeprefix("/rack")
        match path.strip("/").split("/"):
            case ["resource_providers"]:
                return 200, {"resource_providers": [{"uuid": odd, "name": "odd"}, {"uuid": "r1", "name": "host"}]}
            case ["resource_providers", _, "inventories"]:
                vcpus = {"total": 4, "reserved": 0, "allocation_ratio": 1.0}
                return 200, {"inventories": {"VCPU": vcpus}, "resource_provider_generation": 1}
            case ["resource_providers", _, "usages"]:
                return 200, {"usages": {"VCPU": 0}}
        version = {"id": "v1.0", "min_version": "1.0", "max_version": "1.14", "status": "CURRENT"}
        return 200, {"versions": [{**version, "links": [{"rel": "self", "href": ""}]}]}

    service.answer = answer
    found = {each.node: each for each in PlacementProvider(conf).capacities(time.monotonic() + deadline(30))}
    assert found["host"].vcpus == 4
    if odd in QUOTED:
        assert found["odd"].vcpus == 4
        assert f"/rack/resource_providers/{QUOTED[odd]}/usages" in [asked.path for asked in service.asked]
    else:
        assert found["odd"].unreadable.endswith(f"the id {odd!r} cannot be part of a path")

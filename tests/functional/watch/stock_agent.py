# SPDX-License-Identifier: Apache-2.0
"""An agent that does what Axway's SDK (github.com/Axway/agent-sdk, commit 8a44bf6d) does, in its order.

=============================================  ======================================================================
file: function                                 what it does
=============================================  ======================================================================
pkg/agent/events/watchtopic.go:                reads the topic at ``/apis/management/v1/watchtopics/{name}``; any error
getOrCreateWatchTopic                          means that there is none, and it creates one
pkg/apic/client.go: executeAPI                 sends ``Authorization: Bearer`` and no ``X-Auth-Token``
pkg/agent/eventsync.go: initCache              first start: takes the last sequence, and stores it if it is not 0
pkg/harvester/harvesterclient.go: buildParams  0: ``pageSize=1&sort=sequenceID,DESC``; else pages of 100, ascending
pkg/harvester/harvesterclient.go:              a page with fewer events is the last; 410: the sequence of the header
ReceiveSyncEvents
pkg/harvester/harvesterclient.go: syncEvents   0: no catch-up; else repeats it until a catch-up has no event; at 410
                                               it stores the maximum as processed and says nothing
pkg/harvester/harvesterevent.go                dereferences ``payload.metadata``; a reference is HARD unless ``SOFT``
pkg/watchmanager/manager.go: RegisterWatch     opens the stream, then catches up, then sends the first Request
pkg/watchmanager/client.go: createWatchRequest ``Bearer`` before the token; the capability ping in the first one only
pkg/watchmanager/client.go: sendPingResponse   type and id, without a link and a token
pkg/watchmanager/rpcauth.go                    ``x-axway-tenant-id`` and ``authorization`` in the metadata
pkg/agent/events/eventlistener.go:             reads ``/apis`` and the link of the payload, unless it is DELETED
getEventResource
samples/watchclient/pkg/client/client.go:      dereferences the scope of each event
Watch
=============================================  ======================================================================
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlencode

import grpc

from tests.functional.watch.clients import WatchClient
from tests.functional.watch.dialect import DELETED, STOCK
from tests.waiting import deadline

COLLECTION: Final = "/management/v1/watchtopics"
PAGE_SIZE: Final = 100


class StockAgent:
    """One agent with one topic."""

    def __init__(self, api: str, channel: grpc.Channel, token: str, sequence: int = 0) -> None:
        self._api = api
        self._channel = channel
        self.token = token
        self.sequence = sequence
        """The last event that was processed."""
        self.link = ""
        self.events: list[dict[str, Any]] = []
        """The events of the catch-ups."""
        self.stream: WatchClient | None = None

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any, Any]:
        """:returns: the status, the document and the headers."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "X-Axway-Tenant-Id": "t",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        sent = urllib.request.Request(f"{self._api}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(sent, timeout=deadline(60)) as answer:
                return answer.status, json.loads(answer.read() or b"null"), answer.headers
        except urllib.error.HTTPError as exc:
            return exc.code, None, exc.headers

    def get_or_create_topic(self, name: str) -> None:
        status, topic, _ = self.request("GET", f"/apis{COLLECTION}/{name}")
        if status != 200:
            filters = [{"group": "compute", "kind": "Instance", "name": "*", "type": ["created", "updated", "deleted"]}]
            document = {
                "group": "management", "apiVersion": "v1", "kind": "WatchTopic", "name": name, "title": name,
                "attributes": None, "tags": None, "finalizers": None, "owner": None,
                "metadata": {"audit": {}, "scope": {}}, "spec": {"description": "d", "filters": filters},
            }  # fmt: skip
            status, topic, _ = self.request("POST", f"/apis{COLLECTION}", document)
            assert status == 201
        self.link = topic["metadata"]["selfLink"]

    def start_first(self) -> None:
        last = self.receive_sync_events(0)
        if last > 0:
            self.sequence = last

    def receive_sync_events(self, after: int) -> int:
        """:returns: the last sequence; negative: that of a 410."""
        last, page = 0, 1
        while True:
            query = {"pageSize": 1, "sort": "sequenceID,DESC"}
            if after > 0:
                query = {
                    "page": page, "pageSize": PAGE_SIZE, "query": f"sequenceID>{after}", "sort": "sequenceID,ASC",
                }  # fmt: skip
            status, found, headers = self.request("GET", f"/events{self.link}?{urlencode(query)}")
            if status == 410:
                return -int(headers["X-Axway-Max-Sequence-Id"])
            assert status == 200
            for event in found:
                last = event["metadata"]["sequenceID"]
                if after > 0:
                    self.process(event)
            if len(found) < PAGE_SIZE:
                return last
            page += 1

    def process(self, event: dict[str, Any]) -> None:
        assert event["payload"]["metadata"]["scope"]["kind"] is not None
        self.events.append(event)
        self.sequence = event["metadata"]["sequenceID"]

    def catch_up(self) -> None:
        while self.sequence > 0:
            last = self.receive_sync_events(self.sequence)
            if last < 0:
                self.sequence = -last
                return
            if last == 0:
                return

    def register_watch(self) -> WatchClient:
        self.stream = WatchClient(self._channel, dialect=STOCK, token=self.token)
        self.catch_up()
        return self.stream.subscribe(f"Bearer {self.token}", self_link=self.link)

    def refresh(self, token: str) -> None:
        assert self.stream is not None
        self.token = token
        self.stream.send(selfLink=self.link, token=f"Bearer {token}")

    def resource_of(self, event: Any) -> Any:
        """What the agent reads of an event of the stream; None: it reads nothing."""
        assert event.payload.metadata.HasField("scope")
        if event.type == DELETED:
            return None
        status, found, _ = self.request("GET", f"/apis{event.payload.metadata.selfLink}?fields=metadata,spec")
        assert status == 200
        return found

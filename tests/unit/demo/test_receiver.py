# SPDX-License-Identifier: Apache-2.0
"""The subscriber of the demo: what it accepts, what it makes of it, and how it is compared with the model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.waiting import deadline
from watcher_sync.demo.receiver import Receiver
from watcher_sync.demo.webhooks import view_differences
from watcher_sync.extensions.webhooks.standard_webhooks import headers, new_secret, parse_secret

SECRET = new_secret()
NOW = 1_780_000_000


def document(name: str, **status: Any) -> dict[str, Any]:
    return {"kind": "pod", "id": name, "name": name, "status": status}


def delivery(sequence: int, **more: Any) -> bytes:
    changes = {name: more.pop(name, []) for name in ("created", "modified", "deleted")}
    body = {"subscription-name": "amf", "resource-changes": changes, "sequence": sequence,
            "time": "2026-05-28T20:26:39.500000Z", **more}  # fmt: skip
    return json.dumps(body).encode()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with contextlib.closing(Receiver(now=lambda: NOW)) as receiver:
        receiver.expect("amf", SECRET)
        yield receiver


def send(receiver: Receiver, message_id: str, body: bytes, *, secret: str = SECRET) -> int:
    return receiver.take("amf", headers([parse_secret(secret)], message_id, NOW, body), body)


def test_deliveries_change_the_view_that_began_with_the_status(receiver: Receiver) -> None:
    receiver.begin("amf", [document("a", phase="Running"), document("b", phase="Running")])
    body = delivery(
        7,
        created=[document("c", phase="Pending")],
        modified=[document("a", phase="Failed")],
        deleted=[document("b")],
    )
    assert send(receiver, "m1", body) == 204
    assert receiver.view("amf") == {
        ("pod", "a"): document("a", phase="Failed"),
        ("pod", "c"): document("c", phase="Pending"),
    }
    assert receiver.take_lines() == ["amf: 1 created, 1 modified, 1 deleted; seq 7, lag 0.50 s"]
    assert receiver.take_lines() == []


def test_what_was_delivered_before_the_status_was_read_is_newer_than_it(receiver: Receiver) -> None:
    send(receiver, "m1", delivery(7, modified=[document("a", phase="Failed")]))
    receiver.begin("amf", [document("a", phase="Running"), document("b", phase="Running")])
    assert receiver.view("amf")["pod", "a"] == document("a", phase="Failed")
    assert ("pod", "b") in receiver.view("amf")


def test_a_repeated_delivery_is_confirmed_and_not_applied_again(receiver: Receiver) -> None:
    first = delivery(7, created=[document("a")])
    assert send(receiver, "m1", first) == 204
    assert send(receiver, "m2", delivery(8, deleted=[document("a")])) == 204
    assert send(receiver, "m1", first) == 204
    assert receiver.view("amf") == {}
    assert receiver.deliveries("amf") == 2


def test_a_resync_replaces_the_view(receiver: Receiver) -> None:
    receiver.begin("amf", [document("a")])
    send(receiver, "m1", delivery(9, modified=[document("b")], resync="the instance names other workloads"))
    assert receiver.view("amf") == {("pod", "b"): document("b")}
    assert "resync: the instance names other workloads" in receiver.take_lines()[0]


def test_a_delivery_with_a_wrong_signature_changes_nothing_and_is_noted(receiver: Receiver) -> None:
    assert receiver.refused("amf") == ""
    assert send(receiver, "m1", delivery(7, created=[document("a")]), secret=new_secret()) == 401
    assert receiver.view("amf") == {}
    assert receiver.refused("amf") == "no signature fits"
    assert receiver.deliveries("amf") == 0


def test_it_answers_over_http_and_knows_no_other_path(receiver: Receiver) -> None:
    receiver.start()
    body = delivery(7, created=[document("a")])
    signed = headers([parse_secret(SECRET)], "m1", NOW, body)
    with requests.Session() as session:
        session.trust_env = False
        assert session.post(f"{receiver.url}/amf", body, headers=signed, timeout=deadline(60)).status_code == 204
        assert session.post(f"{receiver.url}/smf", body, headers=signed, timeout=deadline(60)).status_code == 404
        assert session.post(f"{receiver.url}/amf", b"{}", headers=signed, timeout=deadline(60)).status_code == 401
    assert receiver.deliveries("amf") == 1


def test_every_difference_from_the_model_is_named() -> None:
    expected = {("pod", "a"): document("a", phase="Running"), ("pod", "b"): document("b")}
    assert list(view_differences("amf", expected, dict(expected))) == []
    received = {("pod", "a"): document("a", phase="Pending"), ("pod", "c"): document("c")}
    assert list(view_differences("amf", expected, received)) == [
        "the receiver of amf has another state of pod a",
        "the receiver of amf lacks pod b",
        "the receiver of amf still has pod c",
    ]

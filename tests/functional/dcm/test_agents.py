# SPDX-License-Identifier: Apache-2.0
"""Agents' answers through a stream that sources DCM's work queue, which keeps its messages for DCM's own consumer."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig, StreamSource

from tests.functional.engine.driving import Installation
from tests.functional.sources.jetstream import Dcm
from tests.waiting import PATIENCE_SECONDS, wait_until
from watcher_sync.testing.dcm import publisher as published

Site = Callable[..., Installation]
QUEUE, OURS, CONSUMER = "dcm-agent-responses", "dcm-agent-answers", "control-plane-response-consumer"


def test_answers_reach_the_rows_and_the_work_queue_keeps_them_for_dcms_own_consumer(
    sqlite_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    dcm.make_stream(QUEUE, published.SUBJECT_RESPONSES, retention=RetentionPolicy.WORK_QUEUE)
    dcm.do(dcm.js.add_consumer(QUEUE, ConsumerConfig(durable_name=CONSUMER, ack_policy=AckPolicy.EXPLICIT)))
    dcm.do(dcm.js.add_stream(StreamConfig(name=OURS, sources=[StreamSource(name=QUEUE)])))
    made = site(sqlite_url)
    made.options |= {
        "engine.enabled_sources": "dcm, dcm_answers",
        "source_dcm_answers.driver": "nats_jetstream",
        "source_dcm_answers.servers": made.options["source_dcm.servers"],
        "source_dcm_answers.stream": OURS,
        "source_dcm_answers.subject": published.SUBJECT_RESPONSES,
    }
    made.engine(made.config())
    client = serve(made.store, workers=1, threads=2)
    path = "/v1/service_type_instances/i-1"
    row = {"id": "i-1", "service_type": "vm", "agent_name": "agent-1"}
    assert client.post("/v1/service_type_instances", json=row).status_code == 201

    def answer(kind: str) -> None:
        body = published.body_of(published.answer(kind, event_id=kind))
        dcm.publish(body, subject=published.SUBJECT_RESPONSES)

    def status() -> object:
        return client.get(path).json()["status"]

    answer("request-queued")
    wait_until(lambda: status() == "QUEUED", what="the answer of the agent")
    dcm.publish(published.body_of(published.status()))
    wait_until(lambda: status() == "RUNNING", what="the status of the provider")
    answer("deletion-acknowledged")
    wait_until(lambda: client.get(path).status_code == 404, what="the row to be deleted")

    assert dcm.do(dcm.js.stream_info(QUEUE)).state.messages == 2, "no message was taken from the work queue"
    subscription = dcm.do(dcm.js.pull_subscribe_bind(CONSUMER, QUEUE))
    messages = dcm.do(subscription.fetch(2, timeout=PATIENCE_SECONDS))
    assert [b"request-queued" in m.data for m in messages] == [True, False]

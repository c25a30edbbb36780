# SPDX-License-Identifier: Apache-2.0
"""The rows of subscriptions, on every database."""

from __future__ import annotations

import datetime
import functools
import threading
import uuid

import msgspec
import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import cycle_on, meter
from tests.simulated import told
from tests.waiting import deadline
from watcher_sync.commit.batch import Batch
from watcher_sync.exceptions import QuotaReached
from watcher_sync.extensions.webhooks.rows import (
    ALL_RESOURCES,
    DELETED,
    RIGHTS,
    SubscriptionRow,
    read_revision,
    shard_of,
)
from watcher_sync.extensions.webhooks.secrets import ActiveSecret, SecretBox, SecretUnreadable, new_key
from watcher_sync.extensions.webhooks.subscriptions import SubscriptionExists, Subscriptions

NOW = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(hours=1)


def subscription(name="one", instance_id="vnf", **more):
    values = {
        "id": str(uuid.uuid4()),
        "instance_kind": "vnf_instance",
        "project_id": "p",
        "user_id": "u",
        "sees_admin_only": False,
        "callback_url": "https://receiver.example.com/",
        "min_notify_interval": 0.5,
        "created_at": NOW,
        "updated_at": NOW,
        **more,
    }
    return SubscriptionRow(name=name, instance_id=instance_id, **values)


@pytest.fixture
def rows(store):
    return Subscriptions(store.database, store.tables, lambda: NOW)


def page_of(rows, **selected):
    """The ids of a page, and whether more follow."""
    page = rows.page(**selected)
    return [one.id for one, _ in page.rows], page.more


def at_once(*works):
    """Runs functions in threads that begin together; what each returned or raised."""
    barrier, results = threading.Barrier(len(works)), [None] * len(works)

    def run(number, work):
        barrier.wait(deadline(60))
        try:
            results[number] = work()
        except Exception as exc:  # noqa: BLE001 - the test checks it
            results[number] = exc

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(60))
    return results


def test_a_subscription_is_found_as_it_was_created(rows, store):
    wanted = subscription(
        metadata={"a": [1, None, "é", "😀"]},
        filter={"kinds": ["pod"], "labels": {"a": "b"}},
        format="cloudevents",
        payload="full",
        sees_admin_only=True,
        secrets="sealed",
    )
    made = rows.create(wanted)
    assert made == msgspec.structs.replace(wanted, shard=shard_of(wanted.id), revision=made.revision)
    found, progress = rows.find("vnf", "one")
    assert found == made
    assert (progress.subscription_id, progress.sequence, progress.last_notify_time) == (made.id, 0, None)
    assert rows.of_instance("vnf") == [(found, progress)]
    assert rows.find("vnf", "ONE") is rows.find("other", "one") is None


@on_one_database
def test_a_new_subscription_begins_at_the_head_of_the_journal(rows, store):
    cycle_on(store).run(Batch(events=[told("1", meter("m"))]))
    made = rows.create(subscription())
    assert made.start_after == 1
    assert rows.find("vnf", "one")[1].sequence == 1


def test_of_two_that_create_one_name_at_once_one_succeeds(new_store):
    stores = [new_store(), new_store()]
    both = [Subscriptions(store.database, store.tables) for store in stores]
    for number in range(5):
        results = at_once(*(functools.partial(rows.create, subscription(f"n{number}")) for rows in both))
        assert sorted(type(result).__name__ for result in results) == ["SubscriptionExists", "SubscriptionRow"]
    assert len(both[0].of_instance("vnf")) == 5


def test_two_at_once_cannot_both_take_the_last_place_of_the_quota(new_store):
    stores = [new_store(), new_store()]
    both = [Subscriptions(store.database, store.tables) for store in stores]
    for number in range(3):
        results = at_once(
            *(
                functools.partial(rows.create, subscription(f"n{number}-{i}"), quota=number + 1)
                for i, rows in enumerate(both)
            )
        )
        assert sorted(type(result).__name__ for result in results) == ["QuotaReached", "SubscriptionRow"]


def test_revisions_are_ordered_by_commit(new_store):
    """A reader that reads the rows above its revision misses none, whatever commits meanwhile."""
    writers = [new_store(), new_store(), new_store()]
    reader = new_store()
    done = threading.Event()
    t = reader.tables.subscriptions

    def write(number):
        rows = Subscriptions(writers[number].database, writers[number].tables)
        for i in range(8):
            rows.create(subscription(f"n{number}-{i}"))

    def read():
        known, revision = set(), 0
        while True:
            last_time = done.is_set()
            with reader.database.connect() as connection:
                found = connection.execute(sa.select(t.c.id, t.c.revision).where(t.c.revision > revision)).all()
            known.update(row.id for row in found)
            revision = max([revision, *(row.revision for row in found)])
            if last_time and not found:
                return known

    watching = []
    thread = threading.Thread(target=lambda: watching.append(read()))
    thread.start()
    failures = [result for result in at_once(*(lambda n=n: write(n) for n in range(3))) if result is not None]
    done.set()
    thread.join(deadline(60))
    assert failures == []
    with reader.database.connect() as connection:
        everything = set(connection.execute(sa.select(t.c.id)).scalars())
        revisions = connection.execute(sa.select(t.c.revision)).scalars().all()
        assert max(revisions) == read_revision(connection, reader.tables)
    assert len(everything) == len(set(revisions)) == 24
    assert watching == [everything]


def test_a_deletion_frees_the_name_and_the_place_and_removes_the_secrets(rows, store):
    first = rows.create(subscription(secrets="sealed"), quota=1)
    with pytest.raises(SubscriptionExists, match="vnf has a subscription of the name one"):
        rows.create(subscription())
    assert rows.delete(first.id)
    assert not rows.delete(first.id)
    assert rows.find("vnf", "one") is None
    assert (rows.of_instance("vnf"), page_of(rows)) == ([], ([], False))
    second = rows.create(subscription(), quota=1)
    assert second.revision > first.revision
    t = store.tables.subscriptions
    with store.database.connect() as connection:
        row = connection.execute(sa.select(t).where(t.c.id == first.id)).one()
    assert (row.state, row.secrets) == (DELETED, None)
    assert first.revision < row.revision < second.revision


@on_one_database
def test_the_quota_is_that_of_a_project(rows):
    rows.create(subscription("a"), quota=1)
    with pytest.raises(QuotaReached) as refused:
        rows.create(subscription("b"), quota=1)
    assert (refused.value.quota, refused.value.used) == (1, 1)
    rows.create(subscription("c", project_id="q"), quota=1)
    rows.create(subscription("d", project_id=None), quota=0)
    rows.create(subscription("e"), quota=-1)


@on_one_database
def test_a_replacement_writes_what_a_subscriber_may_change_and_makes_active(rows, store):
    made = rows.create(subscription(metadata={"a": 1}))
    t, p = store.tables.subscriptions, store.tables.subscription_progress
    with store.database.begin() as connection:
        connection.execute(sa.update(t).values(state="suspended", reason="failures", replay_since=3))
        connection.execute(sa.update(p).values(failures=7, failing_since=NOW, sequence=9))
    wanted = msgspec.structs.replace(
        made, name="other", instance_id="other", start_after=99, callback_url="https://new.example.com/", metadata={}
    )
    later = Subscriptions(store.database, store.tables, lambda: LATER)
    assert later.replace(wanted).callback_url == "https://new.example.com/"
    found, progress = rows.find("vnf", "one")
    assert (found.callback_url, found.metadata, found.start_after) == ("https://new.example.com/", {}, made.start_after)
    assert (found.state, found.reason, found.replay_since, found.updated_at) == ("active", "", 3, LATER)
    assert found.revision > made.revision
    assert (progress.failures, progress.failing_since, progress.sequence) == (0, None, 9)
    rows.delete(made.id)
    assert rows.replace(wanted) is None


@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize(("waiting", "expected"), [(None, 5), (3, 3), (9, 5)])
@on_one_database
def test_a_lost_right_has_everything_delivered_again_from_the_oldest_change_that_waits(
    rows, store, waiting, expected, right
):
    made = rows.create(subscription(**{right: True}))
    assert rows.add_test(made.id, "msg_1", "application/json", b"{}")
    t, d = store.tables.subscriptions, store.tables.webhook_deliveries
    with store.database.begin() as connection:
        connection.execute(sa.update(t).values(replay_since=waiting))
        connection.execute(sa.update(d).values(purpose="changes", previous_sequence=5, sequence=7))
    found, _ = rows.find("vnf", "one")
    assert rows.replace(msgspec.structs.replace(found, **{right: False})) is not None
    found, _ = rows.find("vnf", "one")
    assert (found.replay_since, getattr(found, right)) == (expected, False)
    with store.database.connect() as connection:
        assert connection.execute(sa.select(d.c.state, d.c.body)).one() == ("dead", None)


@on_one_database
def test_a_writer_who_sees_less_has_all_resources_again_if_they_were_under_way(rows, store):
    made = rows.create(subscription(sees_admin_only=True))
    assert rows.add_test(made.id, "msg_1", "application/json", b"{}")
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.webhook_deliveries).values(purpose="resync"))
    found, _ = rows.find("vnf", "one")
    assert rows.replace(msgspec.structs.replace(found, sees_admin_only=False)) is not None
    assert rows.find("vnf", "one")[1].held_since == ALL_RESOURCES


@on_one_database
def test_a_replay_is_noted_and_makes_active(rows, store):
    made = rows.create(subscription())
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.subscriptions).values(state="gone", reason="410"))
    assert rows.replay(made.id, 0)
    found, _ = rows.find("vnf", "one")
    assert (found.replay_since, found.state, found.reason) == (0, "active", "")
    assert found.revision > made.revision
    assert not rows.replay("none", 0)


def test_test_messages_are_in_the_log_with_the_newest_first(rows, store):
    made = rows.create(subscription())
    for number in range(4):
        assert rows.add_test(made.id, f"msg_{number}", "application/json", b'{"\xc3\xa9": 1}')
    assert not rows.add_test("none", "msg_9", "application/json", b"{}")
    log = rows.deliveries(made.id)
    assert [one.webhook_id for one in log] == ["msg_3", "msg_2", "msg_1", "msg_0"]
    assert {(one.purpose, one.state, one.next_attempt_at, one.ended_at) for one in log} == {
        ("test", "pending", NOW, None)
    }
    assert [one.webhook_id for one in rows.deliveries(made.id, limit=2)] == ["msg_3", "msg_2"]
    assert [one.webhook_id for one in rows.deliveries(made.id, before=log[1].id, limit=1)] == ["msg_1"]
    with store.database.begin() as connection:
        t = store.tables.webhook_deliveries
        connection.execute(sa.update(t).where(t.c.webhook_id == "msg_2").values(state="dead"))
        assert connection.execute(sa.select(t.c.body)).scalars().all() == [b'{"\xc3\xa9": 1}'] * 4
    assert [one.webhook_id for one in rows.deliveries(made.id, state="dead")] == ["msg_2"]
    assert rows.deliveries("none") == []


def test_pages_are_sorted_by_id_and_have_one_project_and_one_state(rows, store):
    made = sorted((rows.create(subscription(f"n{i}", project_id="pq"[i % 2])) for i in range(6)), key=lambda s: s.id)
    ids = [one.id for one in made]
    assert page_of(rows) == (ids, False)
    assert page_of(rows, after=ids[1], limit=2) == (ids[2:4], True)
    assert page_of(rows, project_id="p") == ([one.id for one in made if one.project_id == "p"], False)
    assert page_of(rows, project_id="") == ([], False)
    with store.database.begin() as connection:
        t = store.tables.subscriptions
        connection.execute(sa.update(t).where(t.c.id == ids[2]).values(state="suspended"))
    assert page_of(rows, state="suspended") == ([ids[2]], False)
    assert len(page_of(rows, state="active")[0]) == 5


def test_a_page_ends_at_the_bytes_of_its_documents_and_has_them_as_they_were_written(rows):
    texts = {"metadata": {"é": 1_000_000 * "é"}, "filter": {"labels": {"a": 1_000_000 * "b"}}}
    made = sorted((rows.create(subscription(f"n{i}", **texts)) for i in range(5)), key=lambda s: s.id)
    page = rows.page(limit=5)
    assert page.more
    assert [one for one, _ in page.rows] == made[:3]
    assert page_of(rows, after=made[2].id, limit=5) == ([one.id for one in made[3:]], False)


@on_one_database
def test_secrets_are_encrypted_again_all_or_none(rows, store):
    old_key, key = new_key(), new_key()
    old, both = SecretBox([old_key]), SecretBox([key, old_key])
    secrets = [ActiveSecret("whsec_b", None), ActiveSecret("whsec_a", LATER)]
    before = rows.create(subscription("a", secrets=old.seal(secrets))).revision
    rows.create(subscription("b", secrets=old.seal(secrets[:1])))
    rows.create(subscription("c"))
    deleted = rows.create(subscription("d", secrets=old.seal(secrets)))
    rows.delete(deleted.id)
    assert rows.reencrypt(both.renew) == 2
    renewed = SecretBox([key])
    assert renewed.open(rows.find("vnf", "a")[0].secrets) == secrets
    assert renewed.open(rows.find("vnf", "b")[0].secrets) == secrets[:1]
    assert rows.find("vnf", "c")[0].secrets is None
    assert rows.find("vnf", "a")[0].revision > before
    rows.create(subscription("z", secrets=SecretBox([new_key()]).seal(secrets)))
    kept = rows.find("vnf", "a")[0].secrets
    with pytest.raises(SecretUnreadable):
        rows.reencrypt(both.renew)
    assert rows.find("vnf", "a")[0].secrets == kept

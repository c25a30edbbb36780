# SPDX-License-Identifier: Apache-2.0
"""What orders DCM's events: the stream where there is one, else the time, and never across providers."""

from __future__ import annotations

import datetime
import itertools
import random
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers import EPOCH, Player, event, seconds
from watcher_sync.events import Event
from watcher_sync.extensions.dcm.handler.ordering import recovery_version_of, version_of
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import NEVER, Outcome, Upsert, after, check_key
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.dcm.providers import UNTOLD, Message, ProviderSimulator, Row

pytestmark = pytest.mark.slow


@pytest.fixture
def player():
    player = Player()
    player.row()
    return player


def in_every_order(*events, **options):
    """The status that all orders of the events agree on."""
    found = set()
    for order in itertools.permutations(events):
        player = Player(**options)
        player.row()
        player.play(*order)
        found.add(player.get().status)
    (status,) = found
    return status


def test_the_later_sequence_wins_in_whatever_order_they_come():
    events = [event(reported=told, sequence=i) for i, told in ((9, "PROVISIONING"), (10, "RUNNING"), (100, "STOPPED"))]
    assert in_every_order(*events) == "STOPPED"


def test_a_stream_that_is_made_again_does_not_freeze_the_rows():
    old = event(reported="RUNNING", sequence=(EPOCH, 5_000_000))
    new = event(reported="STOPPED", sequence=(EPOCH + 1, 1))
    assert in_every_order(old, new) == "STOPPED"


def test_the_greatest_epoch_and_sequence_sort_as_numbers_do():
    events = [event(reported=told, sequence=s) for told, s in (("RUNNING", (9, 2**63)), ("STOPPED", (10**16, 0)))]
    assert in_every_order(*events) == "STOPPED"


def test_within_one_source_the_time_decides_and_not_the_sequence():
    """A publisher that received no acknowledgement publishes the event again."""
    first = event(reported="PROVISIONING", event_id="a", time=seconds(1), sequence=1)
    then = event(reported="RUNNING", event_id="b", time=seconds(2), sequence=2)
    again = event(reported="PROVISIONING", event_id="a", time=seconds(1), sequence=3)
    assert in_every_order(first, then, again) == "RUNNING"


def test_within_one_source_and_one_second_the_sequence_decides():
    events = [event(reported=told, time=seconds(1), sequence=i) for i, told in ((1, "RUNNING"), (2, "STOPPED"))]
    assert in_every_order(*events) == "STOPPED"


def test_across_sources_the_sequence_decides_and_never_the_time():
    ours = event(reported="RUNNING", time=seconds(10), sequence=1)
    theirs = event(publisher.status(reported="STOPPED", provider="other", time=seconds(5)), sequence=2)
    assert in_every_order(ours, theirs, source_policy="off") == "STOPPED"


def test_an_event_without_a_time_is_compared_by_its_sequence():
    a = event(reported="PROVISIONING", time=seconds(1), sequence=1)
    b = event(reported="RUNNING", time=seconds(20), sequence=2)
    c = event({**publisher.status(reported="STOPPED", time=None), "source": "dcm/providers/kubevirt-1"}, sequence=3)
    assert in_every_order(a, b, c) == "STOPPED"


def test_an_output_keeps_its_own_order(player):
    """A newer status without an output does not make an older event's output stale."""
    player.play(
        event(publisher.status(reported="RUNNING", time=seconds(1), output_spec={"n": 1}), sequence=1),
        event(publisher.status(reported="STOPPED", time=seconds(3)), sequence=3),
        event(publisher.status(reported="PAUSED", time=seconds(2), output_spec={"n": 2}), sequence=2),
    )
    assert (player.get().status, player.get().output_spec) == ("STOPPED", {"n": 2})


def test_the_same_event_again_is_a_duplicate_whatever_its_sequence(player):
    old, new = event(time=seconds(1), sequence=5), event(reported="STOPPED", event_id="b", time=seconds(2), sequence=4)
    assert player.play(old, new, new, old) == [Outcome.APPLIED, Outcome.APPLIED, Outcome.DUPLICATE, Outcome.STALE]


def test_without_a_sequence_the_time_decides_between_events_of_one_provider():
    events = [event(reported=told, event_id=i, time=seconds(at))
              for i, told, at in (("z", "PROVISIONING", 1), ("a", "STOPPED", 2.5), ("m", "RUNNING", 2.25))]  # fmt: skip
    assert in_every_order(*events) == "STOPPED"


def test_without_a_sequence_a_time_in_data_is_as_good():
    document = publisher.status(reported="STOPPED", event_id="a", time=seconds(5))
    del document["time"]
    assert in_every_order(event(document), event(event_id="b", time=seconds(4))) == "STOPPED"


def test_an_offset_of_the_time_is_seen_through():
    later = {**publisher.status(reported="STOPPED", event_id="a"), "time": "2026-03-01T11:00:01-01:00"}
    assert in_every_order(event(later), event(event_id="b", time=seconds(0))) == "STOPPED"


def test_without_a_sequence_two_of_the_same_second_are_in_the_order_of_their_ids():
    assert in_every_order(event(event_id="e2", reported="STOPPED"), event(event_id="e1")) == "STOPPED"


def test_times_of_two_providers_are_never_compared():
    """The same provider wins when the two times are swapped."""

    def told(provider, status, at):
        return event(publisher.status(reported=status, provider=provider, event_id=provider, time=seconds(at)))

    first = in_every_order(told("a", "RUNNING", 1), told("b", "STOPPED", 2), source_policy="off")
    assert first is not None
    assert in_every_order(told("a", "RUNNING", 2), told("b", "STOPPED", 1), source_policy="off") == first


def test_one_provider_under_both_forms_of_its_source_is_one():
    local = {**publisher.status(reported="STOPPED", event_id="a", time=seconds(2)), "source": "kubevirt-1.localhost"}
    both = {"kubevirt-1": "kubevirt-1.localhost dcm/providers/kubevirt-1"}
    assert in_every_order(event(local), event(event_id="b", time=seconds(1)), sources=both) == "STOPPED"


def test_what_comes_from_the_stream_wins_over_what_has_no_sequence(player):
    by_hand = event(reported="FAILED", event_id="by hand", time=seconds(3600))
    assert in_every_order(by_hand, event(sequence=1)) == "RUNNING"
    player.play(event(sequence=1))
    assert player.play(by_hand) == [Outcome.STALE]


def test_an_event_without_any_time_is_before_those_with_one():
    assert in_every_order(event(reported="FAILED", time=None, event_id="z"), event(event_id="a")) == "RUNNING"


def test_an_id_of_any_length_and_alphabet_can_be_put_in_order(player):
    for event_id in ("e" * 255, "événement-サーバ", "\n\t"):
        player.play(event(event_id=event_id))
    assert player.reasons == []


def history(seed, messages=60):
    """Steps of a simulator, and what is true after them."""
    simulator = ProviderSimulator(seed=seed, instances=6, health=0.1)
    return simulator.history(messages), simulator.truth()


def timed(messages):
    """The messages whose time is finer than a second: only those are recognised as old when they are repeated."""
    return [message for message in messages if (time := message.event().time) is not None and time.microsecond]


SEEDS = st.integers(0, 10_000)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.randoms(use_true_random=False), st.sampled_from(["park", "create"]))
def test_the_law_any_order_and_repetition_of_a_stream_ends_in_the_truth(seed, rng, unknown_instance):
    steps, truth = history(seed)
    bad = [event(body, sequence=90_000 + i) for i, (body, _) in enumerate(publisher.malformed().values())]
    messages = [s for s in steps if isinstance(s, Message)]
    # Some come again as they were, and some are published again: what they tell has a newer sequence then.
    again = [m._replace(sequence=(m.sequence[0], 10_000 + i)) for i, m in enumerate(timed(rng.choices(messages, k=20)))]
    told = steps + rng.choices(messages, k=20) + again
    rng.shuffle(told)
    player = Player(unknown_instance=unknown_instance)
    for step in told:
        player.steps([step])
        player.play(rng.choice(bad))
    assert player.parked() == 0
    assert list(compare(truth, player.model.snapshot(), ignored=UNTOLD)) == []


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.randoms(use_true_random=False), st.sets(st.integers(0, 59)))
def test_the_law_holds_with_and_without_sequences_in_one_history(seed, rng, without):
    steps, _ = history(seed)
    rows = [step for step in steps if isinstance(step, Row)]
    messages = [step for step in steps if isinstance(step, Message)]
    events = [message.event(sequenced=i not in without) for i, message in enumerate(messages)]
    dumps = []
    for _ in range(2):
        player = Player()
        player.steps(rows)
        player.play(*rng.sample(events, len(events)), *rng.choices(events, k=10))
        assert player.reasons == []
        dumps.append(player.dump())
    assert dumps[0] == dumps[1]


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.randoms(use_true_random=False))
def test_the_law_holds_for_rows_that_events_make_and_for_providers_that_quarrel(seed, rng):
    """Each event is about one of three rows, and any of three providers may send it, where nothing is enforced."""
    documents = [
        publisher.status(f"i-{rng.randrange(3)}", rng.choice(["DELETED", "FAILED"]), provider=f"p-{rng.randrange(3)}",
                   service_type=rng.choice(["vm", "storage", "database"]), event_id=f"e-{seed}-{i}",
                   time=rng.choice([None, seconds(i // 3)]), message=f"m-{i}",
                   output_spec=rng.choice([None, {"n": i}]))
        for i in range(25)
    ]  # fmt: skip
    events = [event(d, sequence=i if rng.random() < 0.5 else None, channel="dcm." + d["type"].rpartition(".")[2])
              for i, d in enumerate(documents)]  # fmt: skip
    dumps = []
    for _ in range(2):
        player = Player(unknown_instance="create", source_policy="off")
        player.play(*rng.sample(events, len(events)), *rng.choices(events, k=10))
        assert player.reasons == []
        dumps.append(player.dump())
    assert dumps[0] == dumps[1]


def redelivered(messages, rng, fraction):
    """What a stream delivers when so many messages are not acknowledged at once: they come again later."""
    keyed: list = list(enumerate(messages))
    keyed += [(i + rng.uniform(1, 4_000), m) for i, m in keyed if rng.random() < fraction]
    return [message for _, message in sorted(keyed, key=lambda entry: entry[0])]


def test_five_percent_redelivery_of_20_000_events_about_2_000_rows_ends_with_no_wrong_row():
    simulator = ProviderSimulator(seed=20, instances=2_000, providers=40)
    steps = simulator.history(20_000)
    player = Player()
    player.steps(step for step in steps if isinstance(step, Row))
    told = redelivered([step for step in steps if isinstance(step, Message)], random.Random(20), 0.05)
    outcomes = Counter(player.play(*(message.event() for message in told)))
    truth = simulator.truth()
    assert list(compare(truth, player.model.snapshot(), ignored=UNTOLD)) == []
    assert outcomes[Outcome.STALE] + outcomes[Outcome.DUPLICATE] > 800

    # The reference algorithm, whatever comes last is right, has wrong rows; so this test can fail.
    naive = Player()
    naive.steps(step for step in steps if isinstance(step, Row))
    naive.play(*(msgspec.structs.replace(m.event(), sequence=(i, 1)) for i, m in enumerate(told)))
    assert len({d.entity_id for d in compare(truth, naive.model.snapshot(), ignored=UNTOLD)}) > 20


def test_a_listing_of_the_facet_does_not_change_which_of_two_statuses_is_newer():
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    late, early = (sortable.digits(now + datetime.timedelta(seconds=s), "time") for s in (10, 5))
    first, second = (
        Event(id=f"e{n}", type="dcm.vm", source="dcm", origin="p", subject="x", time=now, sequence=(1, n))
        for n in (5, 6)
    )
    known = version_of(first, late, NEVER)
    assert version_of(second, early, known) < known
    assert version_of(second, early, after(known)) < after(known)


def test_a_recovery_after_a_listing_has_a_possible_version():
    check_key(Upsert("provider", "p/vm", recovery_version_of(after(NEVER), "01767225610000000"), {}))

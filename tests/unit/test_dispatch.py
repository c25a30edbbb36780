# SPDX-License-Identifier: Apache-2.0
"""Which handler an event goes to follows from the declarations alone, never from their order."""

from __future__ import annotations

import itertools

import pytest
from oslo_config import cfg

from watcher_sync.dispatch import Dispatcher, Failure, make_handler
from watcher_sync.exceptions import PluginConflict


class Declares:
    """A handler of two methods."""

    def one(self, event, view):
        return ()


def of(events):
    made = Declares()
    made.events = events
    return made


def winner(dispatcher, event_type):
    entry = dispatcher.find(event_type)
    return entry.pattern if entry is not None else None


@pytest.mark.parametrize(
    ("event_type", "wins"),
    [
        ("instance.create.end", "instance.create.end"),
        ("instance.create.start", "instance.create.*"),
        ("instance.delete.end", "instance.*.end"),
        ("instance.a.b.c.end", "instance.*.end"),
        ("instance.update", "instance.*"),
        ("instance", "*"),
        ("", "*"),
        ("service.update", "*"),
    ],
)
def test_exact_wins_over_longer_and_longer_over_shorter_in_any_order_of_declaration(event_type, wins):
    patterns = ["instance.create.end", "instance.create.*", "instance.*.end", "instance.*", "*"]
    for order in itertools.permutations(patterns):
        plugins = [(f"p{i}", of({pattern: "one"})) for i, pattern in enumerate(order)]
        assert winner(Dispatcher(plugins), event_type) == wins


def test_of_two_patterns_of_one_length_the_first_in_the_alphabet_wins():
    for order in (["a*c", "*bc"], ["*bc", "a*c"]):
        assert winner(Dispatcher([("p", of(dict.fromkeys(order, "one")))]), "abc") == "*bc"


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a[bc].*", "a[bc].x", "ab.x"),
        ("a?.*", "a?.x", "ab.x"),
        ("a.*", "a.x\ny", "aXx"),
        ("*.end", "x.end", "x.end.late"),
        ("a.*.b", "a..b", "a.b"),
    ],
)
def test_only_the_star_is_special(pattern, yes, no):
    dispatcher = Dispatcher([("p", of({pattern: "one"}))])
    assert winner(dispatcher, yes) == pattern
    assert winner(dispatcher, no) is None


@pytest.mark.parametrize("pattern", ["instance.create.end", "instance.*"])
def test_two_plugins_that_claim_the_same_are_refused_naming_both_and_the_type(pattern):
    with pytest.raises(PluginConflict) as refused:
        Dispatcher([("nova", of({pattern: "one"})), ("other", of({pattern: None}))])
    assert all(repr(word) in str(refused.value) for word in ("nova", "other", pattern))


def test_a_method_that_is_not_there_is_refused_by_name():
    with pytest.raises(TypeError, match=r"'p' has no method 'missing' for 'a\.b'"):
        Dispatcher([("p", of({"a.b": "missing"}))])


def test_a_type_that_is_ignored_on_purpose_has_an_entry_that_calls_nothing():
    entry = Dispatcher([("p", of({"a.*": "one", "a.b": None}))]).find("a.b")
    assert (entry.call, entry.handler) == (None, "p (ignored)")


def test_more_types_than_are_remembered_are_still_answered_right():
    dispatcher = Dispatcher([("p", of({"a.*": "one"}))])
    for i in range(5000):
        assert (winner(dispatcher, f"a.{i}"), winner(dispatcher, f"b.{i}")) == ("a.*", None)
    assert len(dispatcher._cache) <= 4096
    assert "b.4999" in dispatcher._cache, "types that were made up keep no other out"


def test_the_table_lists_all_in_the_order_in_which_they_win_and_failures_are_preserved():
    failure = Failure("broken", "ImportError: no")
    dispatcher = Dispatcher([("p", of(dict.fromkeys(["*", "b", "a.*", "a"], "one")))], [failure])
    assert [e.pattern for e in dispatcher.table()] == ["a", "b", "a.*", "*"]
    assert dispatcher.failures == (failure,)


def test_a_plugin_gets_its_own_options_and_something_else_is_no_handler():
    class Configured:
        events = {"a": "one"}  # noqa: RUF012
        options = [cfg.IntOpt("size", default=3)]  # noqa: RUF012

        def __init__(self, conf):
            self.size = conf.size

    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    assert make_handler("p", Configured, conf).size == 3
    with pytest.raises(TypeError, match="is not a handler class"):
        make_handler("p", "text", conf)


def test_dialect_of_an_event_type_is_the_plugin_that_handles_it() -> None:
    dispatcher = Dispatcher([("nova", of({"instance.*": "one"})), ("dcm", of({"dcm.*": "one", "dcm.request.*": None}))])
    assert dispatcher.dialects == ("dcm", "nova")
    types = ("instance.delete.end", "dcm.status.vm", "dcm.request.vm", "rack.power.on")
    assert [dispatcher.dialect_of(t) for t in types] == ["nova", "dcm", "dcm", None]

# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""No text of others can hold a thread: texts are bounded, and no pattern backtracks more than its text is long."""

from __future__ import annotations

import ast
import importlib
import itertools
import pathlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import pytest

import watcher_sync
from tests.unit.api.conftest import application, conf, store  # noqa: F401 - fixtures
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.dcm.handler.handler import DcmHandler
from watcher_sync.extensions.dcm.handler.payloads import legacy_of, provider_of, service_type_of
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.extensions.openstack.handler.payloads import reason
from watcher_sync.model.model import Model
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.transports.scrubbing import without_secrets
from watcher_sync.wire.envelopes import read_body, read_message

HUGE = 500_000
LIMIT_SECONDS = 2.0
"""Of processor time; a linear pass over the text takes some milliseconds."""


def seconds(work: Callable[[], Any]) -> float:
    """The processor time of this thread that a call takes."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


SUBJECTS = {
    "dots": "dcm.providers." + "a." * (HUGE // 2),
    "instances": "dcm.providers.a.b" + ".instances.c" * (HUGE // 12),
    "status": "dcm.providers.a.b.instances." + ".status" * (HUGE // 7) + "x",
    "slashes": "dcm/providers/" + "/" * HUGE + "a\n",
}


@pytest.mark.parametrize("text", SUBJECTS.values(), ids=SUBJECTS)
@pytest.mark.parametrize("read", [legacy_of, provider_of, service_type_of])
def test_a_huge_name_does_not_hold_the_handler(text: str, read: Callable[[Event], Any]) -> None:
    event = Event(id="1", type="dcm.status.vm", source="s", subject=text, origin=text, channel=text)
    assert seconds(lambda: read(event)) < LIMIT_SECONDS


@pytest.mark.parametrize("text", SUBJECTS.values(), ids=SUBJECTS)
def test_an_event_with_a_huge_subject_is_undecodable_and_the_reason_names_it(text: str) -> None:
    body = b'{"specversion":"1.0","id":"1","source":"s","type":"t","subject":"%b","data":{}}'
    event = read_body(body % text.encode().replace(b"\n", b" "), source="dcm", max_size=2 * HUGE)
    assert event.undecodable is not None
    assert re.match(r"subject is a string of \d+ characters", event.undecodable)
    assert event.subject == ""


def test_huge_headers_and_addresses_are_undecodable_and_the_reason_names_them() -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}
    for name, value, named in (
        ("ce-subject", "%41" * 200_000, "subject"),
        ("content-type", "application/" + "a+" * 200_000, "content-type"),
        ("ce-time", "2026-01-02T03:04:05." + "0" * 200_000, "time"),
        ("ce-id", "%41" * 200_000, "id"),
    ):
        event = read_message(b"{}", headers | {name: value}, source="dcm")
        assert event.undecodable is not None
        assert event.undecodable.startswith(f"{named} is a string of"), event.undecodable[:100]
    event = read_message(b"{}", headers, source="dcm", channel="dcm." * 200)
    assert event.undecodable is not None
    assert event.undecodable.startswith("channel is a string of 800 characters")


def test_the_name_of_a_watched_object_is_bounded() -> None:
    body = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"uid":"u","resourceVersion":"1","name":"%b"}}}'
    assert read_body(body % (b"a" * 100_000), source="edge").subject == ""


class Declares:
    """A plugin with a pattern of many asterisks."""

    events: ClassVar[Mapping[str, str]] = {"a*a*a*a*a*a*a*a*a*a*b": "one"}

    def one(self, _event: Event, _view: object) -> tuple[()]:
        return ()


def test_a_plugins_pattern_with_many_asterisks_does_not_hold_the_dispatch() -> None:
    dispatcher = Dispatcher([("p", Declares()), ("nova", NovaHandler()), ("dcm", DcmHandler())])
    assert seconds(lambda: dispatcher.find("a" * 250)) < LIMIT_SECONDS
    assert seconds(lambda: dispatcher.find("a" * HUGE)) < LIMIT_SECONDS
    found = dispatcher.find("a" * 60 + "b")
    assert found is not None
    assert found.plugin == "p"


@pytest.mark.parametrize("handler", [DcmHandler(), NovaHandler(), KubernetesHandler()], ids=lambda h: type(h).__name__)
def test_no_method_of_a_handler_is_held_by_huge_texts(handler: Any) -> None:
    view = Model(builtin_kinds()).snapshot()
    for method, text in itertools.product(sorted({m for m in handler.events.values() if m}), SUBJECTS.values()):
        data = b'{"status":"RUNNING","id":"' + b"a" * HUGE + b'","nova_object.namespace":"`missing required field `"}'
        event = Event(
            id=text,
            type="dcm.status.vm",
            source="s",
            subject=text,
            origin=text,
            channel=text,
            data=data,
            sequence=(1, 1),
        )

        def call(method: str = method, event: Event = event) -> None:
            try:
                list(getattr(handler, method)(event, view) or ())
            except InvalidEvent:
                pass

        assert seconds(call) < LIMIT_SECONDS, method


def test_the_reason_of_a_payload_is_found_without_a_pattern() -> None:
    foreign = "missing required field `" * 20_000
    message = f"Invalid enum value '{foreign}' - at `$.flavor.namespace`"
    assert seconds(lambda: reason("payload", message)) < LIMIT_SECONDS
    assert reason("payload", message) == "payload.flavor.namespace: Expected nova"
    assert reason("payload", "Object missing required field `uuid` - at `$.flavor`") == "payload.flavor.uuid: missing"
    assert reason("payload", "Expected `int`, got `str`") == "payload: Expected int, got str"


# All patterns of the package


FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package that has patterns, by its name."""
    for module in pkgutil.walk_packages(watcher_sync.__path__, "watcher_sync."):
        source = module.module_finder.find_spec(module.name, None).origin  # type: ignore[union-attr]
        text = pathlib.Path(source or "").read_text()
        if "\nimport re\n" in text:
            yield module.name, ast.parse(text)


def patterns() -> Iterator[Any]:
    """(pattern, name of the method that applies it), of every module."""
    for name, tree in modules():
        compiled = {k: v for k, v in vars(importlib.import_module(name)).items() if isinstance(v, re.Pattern)}
        used: dict[str, set[str]] = {each: set() for each in compiled}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner, function = node.func.value, node.func.attr
            if not isinstance(owner, ast.Name):
                continue
            if owner.id in used and function in FUNCTIONS:
                used[owner.id].add(function)
            elif owner.id == "re" and function in FUNCTIONS - {"compile"}:
                assert isinstance(node.args[0], ast.Constant), f"{name}: re.{function} needs a literal pattern"
                yield pytest.param(re.compile(node.args[0].value), function, id=f"{name}:{node.lineno}")
        for each, methods in used.items():
            for method in methods or {"search"}:
                yield pytest.param(compiled[each], method, id=f"{name}.{each}.{method}")


def fragments(pattern: str) -> tuple[list[str], set[str]]:
    """The literal texts of a pattern in their order, and characters that its parts match."""
    found, alphabet = [""], set(" a0.-\n")
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "\\":
            char = pattern[position]
            position += 1
            if char.isalnum():
                found.append("")
                continue
        elif char == "[":
            end = pattern.index("]", position + 2)
            alphabet.update(c for c in pattern[position:end] if c not in "^\\")
            position = end + 1
            found.append("")
            continue
        elif char in "^$.|?*+(){}":
            found.append("")
            continue
        found[-1] += char
        alphabet.add(char)
    return [each for each in found if each], alphabet


def attacks(pattern: str) -> Iterator[tuple[str, str, str]]:
    """(beginning, part to repeat, end): texts that make an ambiguous pattern try again and again."""
    literals, alphabet = fragments(pattern)
    beginnings = ["".join(literals[:n]) for n in range(len(literals) + 1)]
    for beginning in dict.fromkeys(beginnings):
        for part in dict.fromkeys([*sorted(alphabet), *literals, *(a + b for a, b in itertools.pairwise(literals))]):
            for end in ("", "\0"):
                yield beginning, part, end


SIZES = (12, 16, 20, 24, 28, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


def is_slow(pattern: re.Pattern[Any], method: str) -> str | None:
    """The attack that takes more than a linear time, if one does."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    apply = pattern.findall if method in ("finditer", "findall", "sub", "subn", "split") else getattr(pattern, method)
    for beginning, part, end in attacks(text):
        for size in SIZES:
            attack: Any = beginning + part * max(1, size // len(part)) + end
            if isinstance(source, bytes):
                attack = attack.encode("latin-1", "replace")
            taken = seconds(lambda attack=attack: apply(attack))
            if taken > 0.05:
                return f"{taken:.2f} s for {size} characters: {beginning!r} + {part!r} * n + {end!r}"
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "method"), list(patterns()))
def test_a_pattern_takes_a_time_that_grows_as_its_text(pattern: re.Pattern[Any], method: str) -> None:
    assert (attack := is_slow(pattern, method)) is None, f"{pattern.pattern!r}: {attack}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+b", "fullmatch"),
        (r"(a|a)*b", "fullmatch"),
        (r"dcm\.providers\.(.+?)\.([^.]+)\.instances\.(.+)\.status", "fullmatch"),
        (r"/*dcm/providers/(.+?)/*", "fullmatch"),
        (r",(?![^(]*\))", "split"),
        (r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', "finditer"),
        (r"(?s:a.*a.*a.*a.*b)\Z", "match"),
    ],
)
def test_the_search_for_slow_patterns_finds_those_that_were_there(pattern: str, method: str) -> None:
    assert is_slow(re.compile(pattern), method) is not None


def schema_patterns(node: Any) -> Iterator[str]:
    """The values of ``pattern``, and the names below ``patternProperties``, anywhere in a JSON Schema."""
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        yield from node.get("patternProperties", {})
        for value in node.values():
            yield from schema_patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from schema_patterns(value)


@pytest.mark.slow
def test_the_patterns_of_the_api_take_a_time_that_grows_as_their_text(application: Any) -> None:
    from tests.unit.api.conftest import Client

    found = sorted(set(schema_patterns(Client(application).simulate_get("/openapi.json").json)))
    assert len(found) > 4
    for pattern in found:
        assert (attack := is_slow(re.compile(pattern), "search")) is None, f"{pattern!r}: {attack}"


def test_the_patterns_of_the_dispatch_take_a_time_that_grows_as_the_type() -> None:
    dispatcher = Dispatcher([("p", Declares()), ("nova", NovaHandler()), ("dcm", DcmHandler())])
    compiled = [pattern for pattern, _ in dispatcher._patterns]
    assert len(compiled) > 10
    for pattern in compiled:
        assert (attack := is_slow(pattern, "match")) is None, f"{pattern.pattern!r}: {attack}"


@pytest.mark.parametrize("secret", ["a", "aaaa/a@a", "%%25", "+ /" * 20])
def test_a_password_is_searched_in_a_time_that_grows_as_the_text(secret: str) -> None:
    for text in ("%25" * (HUGE // 3), "a" * HUGE, "%" * HUGE, "%2525" * (HUGE // 5) + "61"):
        assert seconds(lambda text=text: without_secrets(text, [secret])) < LIMIT_SECONDS  # type: ignore[misc]


MADE_OF_OTHERS = ("watcher_sync.dispatch", "watcher_sync.api.http.validation", "watcher_sync.transports.scrubbing")


def test_no_module_makes_patterns_in_another_way() -> None:
    for name, tree in modules():
        compiled = [v for v in vars(importlib.import_module(name)).values() if isinstance(v, re.Pattern)]
        if name in MADE_OF_OTHERS:  # the tests above have these patterns
            continue
        count = sum(isinstance(n, ast.Attribute) and ast.unparse(n) == "re.compile" for n in ast.walk(tree))
        assert count == len(compiled), f"{name}: re.compile outside of the module's own names"
    for module in pkgutil.walk_packages(watcher_sync.__path__, "watcher_sync."):
        source = module.module_finder.find_spec(module.name, None).origin  # type: ignore[union-attr]
        text = pathlib.Path(source or "").read_text()
        assert not re.search(r"^(from (re|fnmatch|glob) import|import re as)", text, re.MULTILINE), source
        calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
        metas = [each for each in calls if ast.unparse(each.func).rpartition(".")[2] == "Meta"]
        assert all(keyword.arg != "pattern" for each in metas for keyword in each.keywords), source

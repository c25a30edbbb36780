# SPDX-License-Identifier: Apache-2.0
"""Plugins that use the old names of the interface work for one more release, with a warning that names the new one."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import pytest

from watcher_sync.events import Event
from watcher_sync.handlers.dcm import service_types
from watcher_sync.model import changes, kinds
from watcher_sync.model.entities import Instance, builtin_kinds
from watcher_sync.model.kinds import Entity, In, kind, kind_of
from watcher_sync.sources.base import Emit, Source, SourceState, SourceStatus


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("watcher_sync.model.changes", "Heard", changes.Seen),
        ("watcher_sync.model.kinds", "Implied", kinds.Placeholder),
        ("watcher_sync.model.kinds", "Follows", kinds.DependsOn),
        ("watcher_sync.handlers.dcm_services", "ServiceType", service_types.ServiceType),
    ],
)
def test_an_old_name_of_a_module_is_the_new_one_and_warns(module: str, old: str, new: type) -> None:
    with pytest.warns(
        DeprecationWarning, match=rf"{module}\.{old} is deprecated, use watcher_sync\.\S+\.{new.__name__}$"
    ):
        assert getattr(importlib.import_module(module), old) is new


def test_the_warning_is_at_the_line_that_imports_the_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated, use") as caught:
        from watcher_sync.model.kinds import Implied  # type: ignore[attr-defined]  # noqa: F401 - the import is tested
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("module", [changes, kinds, importlib.import_module("watcher_sync.handlers.dcm_services")])
def test_a_name_that_never_was_is_still_refused(module: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


def test_the_old_arguments_of_kind_declare_the_same_kind_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated, use") as caught:

        @kind("old_rack", plural="old_racks", indexes=("state",), coarse=("state",), volatile="last_heard")
        class OldRack(Entity, frozen=True, kw_only=True, gc=False):
            state: Annotated[str | None, In("state")] = None
            last_heard: str | None = None

    assert [str(warning.message) for warning in caught] == [
        "the argument coarse of kind() is deprecated, use low_cardinality",
        "the argument volatile of kind() is deprecated, use last_seen_field",
    ]
    assert {warning.filename for warning in caught} == {__file__}
    declared = kind_of(OldRack)
    assert (declared.low_cardinality, declared.last_seen_field) == (("state",), "last_heard")


def test_an_argument_that_kind_never_had_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'stands_alone'"):
        kind("rack", plural="racks", stands_alone=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("volatile", "last_seen_field"),
        ("coarse", "low_cardinality"),
        ("stands_alone", "is_standalone"),
        ("refers_loosely", "has_weak_references"),
        ("implied", "is_placeholder"),
    ],
)
def test_an_old_attribute_of_a_kind_has_the_value_of_the_new_one_and_warns(old: str, new: str) -> None:
    for declared in builtin_kinds().values():
        with pytest.warns(DeprecationWarning, match=rf"^Kind\.{old} is deprecated, use Kind\.{new}$") as caught:
            assert getattr(declared, old) == getattr(declared, new)
        assert caught[0].filename == __file__


def test_an_attribute_that_no_kind_ever_had_is_refused() -> None:
    declared: Any = kind_of(Instance)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = declared.nothing


def old_driver() -> type[Source]:
    class OldDriver(Source):
        lives_apart = True

        def __init__(self) -> None:
            self.released: list[Event] = []

        def start(self, emit: Emit) -> None:
            pass

        def ack(self, events: Sequence[Event]) -> None:
            pass

        def release(self, events: Sequence[Event], delay: float) -> None:
            self.released += events

        def reach(self) -> None:
            raise OSError("unreachable")

        def stop(self, deadline: float) -> None:
            pass

        def status(self) -> SourceStatus:
            return SourceStatus(state=SourceState.CONNECTED)

    return OldDriver


def test_a_driver_with_the_old_members_is_called_by_the_new_ones_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated, use") as caught:
        cls = old_driver()
    assert sorted(str(warning.message).rpartition(".")[2] for warning in caught) == [
        "lives_apart is deprecated, use supports_subprocess",
        "reach is deprecated, use probe",
        "release is deprecated, use nack",
    ]
    assert {warning.filename for warning in caught} == {__file__}
    driver: Any = cls()
    event = Event(id="1", type="t", source="s")
    driver.nack([event], 1.0)
    assert driver.released == [event]
    assert cls.supports_subprocess
    with pytest.raises(OSError, match="unreachable"):
        driver.probe()


def test_a_driver_with_both_names_keeps_its_own_new_one_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class Both(Source):
            def nack(self, events: Sequence[Event], delay: float) -> None:
                raise AssertionError("not called")

            release = None

    assert vars(Both)["release"] is None
    assert vars(Both)["nack"] is not None

# SPDX-License-Identifier: Apache-2.0
"""The provider of a YAML file, for hosts whose capacity no API reports::

    hosts:
      compute-0:
        vcpus: 32
        memory_mb: 131072
        reserved_memory_mb: 4096
        vcpu_ratio: 4.0
        inventories:
          CUSTOM_FPGA: {total: 2, reserved: 0, allocation_ratio: 1.0}

An error names the file, the host and the field, and the whole file is then left aside: what it said before remains.
The file is read again when it changes, and after a SIGHUP.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import msgspec
import yaml
from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.reconcile.capacity_provider import CapacityError, CapacityProvider, HostCapacity, ResourceInventory

_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_AMOUNT: Final = 2**53
_CHECK_INTERVAL_SECONDS: Final = 1.0

Amount = int | None


class _DeclaredHost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``hosts``: fields of :class:`HostCapacity`."""

    vcpus: Amount = None
    memory_mb: Amount = None
    disk_gb: Amount = None
    reserved_vcpus: Amount = None
    reserved_memory_mb: Amount = None
    reserved_disk_gb: Amount = None
    vcpu_ratio: float | None = None
    memory_ratio: float | None = None
    disk_ratio: float | None = None
    inventories: dict[str, ResourceInventory] | None = None


class _UniqueKeys(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no annotations
    """Refuses a key that a mapping has twice, of which YAML would use the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """:raises yaml.constructor.ConstructorError: naming the key and its line."""
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class StaticProvider(CapacityProvider):
    """Reports what a file says."""

    name: ClassVar[str] = "static"
    options: ClassVar[list[cfg.Opt]] = [
        cfg.StrOpt(
            "file",
            help="""
Path of the YAML file with the capacity of hosts.

The engine reads it again when it changes, and after a SIGHUP. While the file is invalid, the values of its last valid
version remain.
""",
        )
    ]

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: ``file`` is not set."""
        super().__init__(conf)
        if not conf.capacity_provider_static.file:
            raise ConfigError("[capacity_provider_static] file: not set")
        self._path: str = conf.capacity_provider_static.file
        self._read: tuple[int, int, int] | None = None
        """What identifies the version of the file that was read last."""
        self._is_reload_requested = False
        self._next_check = 0.0

    def capacities(self, deadline: float) -> Iterable[HostCapacity]:
        """Read the file.

        :raises CapacityError: naming the file, the host and the field.
        """
        self._is_reload_requested = False
        self._read = self._version()
        try:
            with open(self._path, encoding="utf-8") as file:
                text = file.read(_MAX_BYTES + 1)
        except (OSError, UnicodeError) as exc:
            raise CapacityError(f"{self._path}: cannot be read: {exc}") from None
        if len(text) > _MAX_BYTES:
            raise CapacityError(f"{self._path}: larger than {_MAX_BYTES} characters")
        return [_capacity(host, found) for host, found in parse(text, self._path).items()]

    def has_changed(self) -> bool:
        """Whether the file is another one than at the last run; checked once a second."""
        if self._is_reload_requested:
            return True
        if time.monotonic() < self._next_check:
            return False
        self._next_check = time.monotonic() + _CHECK_INTERVAL_SECONDS
        return self._read is not None and self._version() != self._read

    def reload(self) -> None:
        """Read the file again at the next run."""
        self._is_reload_requested = True

    def _version(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)


def parse(text: str, path: str) -> dict[str, _DeclaredHost]:
    """Return host -> its entry.

    :param path: named in errors.
    :raises CapacityError: naming the file, and the host and the field where there are such.
    """
    try:
        document = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a safe loader
    except yaml.YAMLError as exc:
        raise CapacityError(f"{path}: {' '.join(str(exc).split())}") from None
    if not isinstance(document, dict) or document.keys() != {"hosts"} or not isinstance(document["hosts"], dict):
        raise CapacityError(f"{path}: the file has one key, hosts: a mapping of names to capacities")
    return {_name(host, path): _host(host, entry, path) for host, entry in document["hosts"].items()}


def _name(host: Any, path: str) -> str:
    if not isinstance(host, str) or not 0 < len(host) <= 255:
        raise CapacityError(f"{path}: hosts: {host!r} is no name of a host; put a number into quotation marks")
    return host


def _host(host: str, entry: Any, path: str) -> _DeclaredHost:
    if not isinstance(entry, dict):
        raise CapacityError(f"{path}: host {host}: it needs a mapping of fields")
    try:
        found = msgspec.convert(entry, _DeclaredHost)
    except msgspec.ValidationError as exc:
        reason, _, where = str(exc).partition(" - at ")
        field = where.strip("`").removeprefix("$").removeprefix(".")
        raise CapacityError(f"{path}: host {host}: {f'{field}: ' if field else ''}{reason}") from None
    for field, value in _numbers(found):
        is_ratio = field.endswith("ratio")
        if not (0 < value < math.inf if is_ratio else 0 <= value <= _MAX_AMOUNT):
            allowed = "above 0" if is_ratio else f"0 to {_MAX_AMOUNT}"
            raise CapacityError(f"{path}: host {host}: {field}: {value} is not {allowed}")
    return found


def _numbers(found: _DeclaredHost) -> Iterable[tuple[str, float]]:
    for field in _DeclaredHost.__struct_fields__:
        if field != "inventories" and (value := getattr(found, field)) is not None:
            yield field, value
    for resource_class, inventory in (found.inventories or {}).items():
        for field in ResourceInventory.__struct_fields__:
            if (value := getattr(inventory, field)) is not None:
                yield f"inventories.{resource_class}.{field}", value


def _capacity(host: str, found: _DeclaredHost) -> HostCapacity:
    return HostCapacity(host=host, **{field: getattr(found, field) for field in _DeclaredHost.__struct_fields__})

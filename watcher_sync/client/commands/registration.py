# SPDX-License-Identifier: Apache-2.0
"""Reads the registration of a VNF instance from a file or from options, and formats it like the options.

This module checks the syntax only; its errors name the option or the file. The API checks the values; its errors name
the field.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from watcher_sync.client.commands.arguments import WrongUsage
from watcher_sync.client.commands.files import object_of_file

VDU = "NAME=KIND/NAME,initial=N[,min=N][,max=N]"
ASPECT = "NAME=MAX:VDU=DELTA[,VDU=DELTA]"

_PRODUCT = ("vnf_provider", "vnf_product_name", "vnf_software_version", "vnfd_version")
_TEXTS = ("name", "cluster", "namespace", "vnfd_id", "flavour_id", *_PRODUCT)
_REQUIRED = ("cluster", "vnfd_id", "vdu")
_REGISTERED = (*_TEXTS, "vdus", "aspects", "ext_cp_info", "sync_after_failure")

OPTIONAL = ("name", "flavour_id", *_PRODUCT)
"""The texts of a registration that an instance may lack."""

Named = tuple[str, dict[str, Any]]
"""A VDU or an aspect under its name."""


def add_registration(parser: argparse.ArgumentParser) -> None:
    """Adds ``--file``, and the options that replace it.

    ``-f`` is the output format in all other commands, and the file in other tools such as kubectl. Here it is both.
    """
    format_option = parser._option_string_actions.pop("-f")  # argparse cannot take an option back
    format_option.option_strings = ["--format"]
    parser.add_argument(
        "-f", "--file", action=_FileOrFormat, formats=tuple(format_option.choices or ()), metavar="FILE",
        help="read the registration from this JSON or YAML file, or from stdin if it is -; "
        "but -f with the name of a format, such as -f json, is --format",
    )  # fmt: skip
    parser.add_argument(
        "--project", metavar="ID", help="the project that owns it, for administrators (default: that of the token)"
    )
    group = parser.add_argument_group("registration", "instead of a file")
    add = group.add_argument
    add("--name", metavar="NAME", help="name of the instance, for people")
    add("--cluster", metavar="NAME", help="the cluster of the instance, as named in the configuration of its source")
    add("--namespace", metavar="NAME", help="the namespace of the instance (default: default)")
    add("--vnfd-id", metavar="ID", help="its descriptor (VNFD)")
    add("--flavour-id", metavar="ID", help="its deployment flavour")
    add("--vnf-provider", metavar="NAME", help="provider of the VNF")
    add("--vnf-product-name", metavar="NAME", help="product of the VNF")
    add("--vnf-software-version", metavar="VERSION", help="software version of the VNF")
    add("--vnfd-version", metavar="VERSION", help="version of its descriptor")
    add(
        "--sync-after-failure", action=argparse.BooleanOptionalAction, default=None,
        help="whether the sync goes on after an operation that failed, before it is resolved (default: yes)",
    )  # fmt: skip
    add(
        "--vdu", dest="vdu", action="append", type=vdu, default=[], metavar=VDU,
        help="a VDU: its workload, its pods at level 0, the minimum and the maximum; may be repeated. "
        "KIND is Deployment, StatefulSet, DaemonSet, ReplicaSet or Pod",
    )  # fmt: skip
    add(
        "--aspect", dest="aspect", action="append", type=aspect, default=[], metavar=ASPECT,
        help="a scaling aspect: its highest level, and the pods that each step adds to a VDU (1+2: one, then two); "
        "may be repeated",
    )  # fmt: skip


def registration(options: argparse.Namespace) -> dict[str, Any]:
    """Reads the registration from the options or the file, and the project from its option.

    :raises WrongUsage: when it is incomplete or cannot be read; the message names the option or the file.
    """
    values = _registration(options)
    if options.project is not None:
        values["project_id"] = options.project
    return values


def changes(options: argparse.Namespace) -> dict[str, Any]:
    """Reads the fields that the options or the file give, which need not be a whole registration.

    :raises WrongUsage: when there are none, or the file cannot be read.
    """
    values = _given(options) if options.file is None else _of_file(options)
    if options.project is not None:
        values["project_id"] = options.project
    if not values:
        raise WrongUsage("name at least one property to change")
    return values


def registered(entity: Mapping[str, Any]) -> dict[str, Any]:
    """The registration of an instance, without what was observed."""
    return {name: entity[name] for name in _REGISTERED if entity.get(name) is not None}


def _registration(options: argparse.Namespace) -> dict[str, Any]:
    if options.file is not None:
        return _of_file(options)
    missing = [f"--{name.replace('_', '-')}" for name in _REQUIRED if not getattr(options, name)]
    if missing:
        raise WrongUsage(f"{', '.join(missing)}: required, unless --file is given")
    return _given(options)


def _of_file(options: argparse.Namespace) -> dict[str, Any]:
    names = (*_TEXTS, "sync_after_failure", "vdu", "aspect")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name) not in (None, [])]
    if given:
        raise WrongUsage(f"--file: cannot be combined with {given[0]}")
    return object_of_file(options.file)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    names = (*_TEXTS, "sync_after_failure")
    values: dict[str, Any] = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.vdu:
        values["vdus"] = _together("--vdu", options.vdu)
    if options.aspect:
        values["aspects"] = _together("--aspect", options.aspect)
    return values


def vdu(text: str) -> Named:
    """The type of ``--vdu``."""
    name, _, rest = text.partition("=")
    workload, *counts = rest.split(",")
    kind, slash, workload_name = workload.partition("/")
    if not (name and kind and slash and workload_name):
        raise argparse.ArgumentTypeError(f"must be {VDU}, not {text!r}")
    values: dict[str, Any] = {"workload": {"kind": kind, "name": workload_name}}
    for count in counts:
        key, equals, number = count.partition("=")
        if not equals or key not in ("initial", "min", "max"):
            raise argparse.ArgumentTypeError(f"{name}: {count!r} is none of initial=N, min=N, max=N")
        if key in values:
            raise argparse.ArgumentTypeError(f"{name}: {key} is given twice")
        values[key] = _number(name, key, number)
    if "initial" not in values:
        raise argparse.ArgumentTypeError(f"{name}: initial=N is missing")
    return name, values


def aspect(text: str) -> Named:
    """The type of ``--aspect``."""
    name, _, rest = text.partition("=")
    highest, colon, steps = rest.partition(":")
    if not (name and highest and colon and steps):
        raise argparse.ArgumentTypeError(f"must be {ASPECT}, not {text!r}")
    deltas: dict[str, Any] = {}
    for step in steps.split(","):
        scaled, equals, number = step.partition("=")
        if not (scaled and equals):
            raise argparse.ArgumentTypeError(f"{name}: {step!r} is no VDU=DELTA")
        if scaled in deltas:
            raise argparse.ArgumentTypeError(f"{name}: {scaled} is given twice")
        each = [_number(name, scaled, part) for part in number.split("+")]
        deltas[scaled] = each if len(each) > 1 else each[0]
    return name, {"max_scale_level": _number(name, "MAX", highest), "deltas": deltas}


def vdu_text(name: str, values: Mapping[str, Any]) -> str:
    """Formats a VDU as a value of ``--vdu``."""
    workload = values["workload"]
    counts = [f"{key}={values[key]}" for key in ("initial", "min", "max") if values.get(key) is not None]
    labels = ";".join(f"{key}={value}" for key, value in sorted(workload.get("labels", {}).items()))
    return ",".join([f"{name}={workload['kind']}/{workload.get('name', labels)}", *counts])


def aspect_text(name: str, values: Mapping[str, Any]) -> str:
    """Formats an aspect as a value of ``--aspect``."""
    deltas = {v: "+".join(map(str, d)) if isinstance(d, list) else d for v, d in values["deltas"].items()}
    return f"{name}={values['max_scale_level']}:{','.join(f'{v}={d}' for v, d in deltas.items())}"


class _FileOrFormat(argparse.Action):
    """``--file FILE``; but ``-f`` with the name of a format sets the format."""

    def __init__(self, *args: Any, formats: Collection[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._formats = formats

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Stores the value as the format or as the file."""
        is_format = option_string == "-f" and values in self._formats
        setattr(namespace, "formatter" if is_format else self.dest, values)


def _together(option: str, given: Iterable[Named]) -> dict[str, Any]:
    together: dict[str, Any] = {}
    for name, values in given:
        if name in together:
            raise WrongUsage(f"{option}: {name} is given twice")
        together[name] = values
    return together


def _number(name: str, what: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise argparse.ArgumentTypeError(f"{name}: {what} must be a number, not {text!r}")
    return int(text)

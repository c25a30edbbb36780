# SPDX-License-Identifier: Apache-2.0
"""The registration of a VNF instance as a command line says it: in a file, or in options.

Here it is only read. Whether it makes sense is for the API to say, which names the field; what cannot even be read
names the option or the file. A registration is shown as the options would say it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from watcher_sync.client.commands.base import WrongUsage

VDU = "NAME=KIND/NAME,initial=N[,min=N][,max=N]"
ASPECT = "NAME=MAX:VDU=DELTA[,VDU=DELTA]"

STDIN = "-"

_TEXTS = ("name", "cluster", "namespace", "vnfd_id", "flavour_id")
_REQUIRED = ("cluster", "namespace", "vnfd_id", "vdu")

Named = tuple[str, dict[str, Any]]
"""A VDU or an aspect under its name."""


def add_registration(parser: argparse.ArgumentParser) -> None:
    """``--file``, and the options that say the same.

    ``-f`` is the output format in all other commands, and in some of the world's tools the file; here it is both.
    """
    format_option = parser._option_string_actions.pop("-f")  # argparse cannot take an option back
    format_option.option_strings = ["--format"]
    parser.add_argument(
        "-f", "--file", action=_FileOrFormat, formats=tuple(format_option.choices or ()), metavar="FILE",
        help="read the registration from this JSON or YAML file, or from stdin where it is -; "
        "but -f json, -f yaml and so on is --format",
    )  # fmt: skip
    group = parser.add_argument_group("registration", "instead of a file")
    add = group.add_argument
    add("--name", metavar="NAME", help="name of the instance, for people")
    add("--cluster", metavar="NAME", help="the cluster it runs in, as its source has it")
    add("--namespace", metavar="NAME", help="the namespace it runs in")
    add("--vnfd-id", metavar="ID", help="its descriptor (VNFD)")
    add("--flavour-id", metavar="ID", help="its deployment flavour")
    add(
        "--vdu", dest="vdu", action="append", type=vdu, default=[], metavar=VDU,
        help="a VDU: its workload, its pods at level 0, the fewest and the most; may be repeated. "
        "KIND is Deployment, StatefulSet, DaemonSet, ReplicaSet or Pod",
    )  # fmt: skip
    add(
        "--aspect", dest="aspect", action="append", type=aspect, default=[], metavar=ASPECT,
        help="a scaling aspect: its highest level, and the pods that each step adds to a VDU (1+2: one, then two); "
        "may be repeated",
    )  # fmt: skip


def registration(options: argparse.Namespace) -> dict[str, Any]:
    """The registration that the options or the file say.

    :raises WrongUsage: naming the option or the file.
    """
    given = [f"--{name.replace('_', '-')}" for name in (*_TEXTS, "vdu", "aspect") if getattr(options, name)]
    if options.file is not None:
        if given:
            raise WrongUsage(f"--file: says it all, and is not given with {given[0]}")
        return read_file(options.file)
    missing = [f"--{name.replace('_', '-')}" for name in _REQUIRED if not getattr(options, name)]
    if missing:
        raise WrongUsage(f"{', '.join(missing)}: has to be given, or --file")
    values = {name: value for name in _TEXTS if (value := getattr(options, name)) is not None}
    values["vdus"] = _together("--vdu", options.vdu)
    if options.aspect:
        values["aspects"] = _together("--aspect", options.aspect)
    return values


def read_file(name: str) -> dict[str, Any]:
    """An object out of a JSON or YAML file.

    :param name: ``-``: stdin.
    :raises WrongUsage: naming the file.
    """
    shown = "stdin" if name == STDIN else name
    try:
        text = (sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUsage(f"--file: {shown} is not UTF-8") from None
    except (OSError, ValueError) as exc:
        raise WrongUsage(f"--file: {shown} cannot be read: {getattr(exc, 'strerror', None) or exc}") from None
    try:
        document = _loaded(text)
        msgspec.json.encode(document)
    except (ValueError, TypeError, RecursionError) as exc:
        raise WrongUsage(f"--file: {shown}: {exc}") from None
    if not isinstance(document, dict):
        raise WrongUsage(f"--file: {shown} holds no object")
    return document


def vdu(text: str) -> Named:
    """``--vdu``, the option's type."""
    name, _, rest = text.partition("=")
    workload, *counts = rest.split(",")
    kind, slash, workload_name = workload.partition("/")
    if not (name and kind and slash and workload_name):
        raise argparse.ArgumentTypeError(f"is {VDU}, not {text!r}")
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
    """``--aspect``, the option's type."""
    name, _, rest = text.partition("=")
    highest, colon, steps = rest.partition(":")
    if not (name and highest and colon and steps):
        raise argparse.ArgumentTypeError(f"is {ASPECT}, not {text!r}")
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
    """The VDU as ``--vdu`` would say it."""
    workload = values["workload"]
    counts = [f"{key}={values[key]}" for key in ("initial", "min", "max") if values.get(key) is not None]
    return ",".join([f"{name}={workload['kind']}/{workload['name']}", *counts])


def aspect_text(name: str, values: Mapping[str, Any]) -> str:
    """The aspect as ``--aspect`` would say it."""
    deltas = {v: "+".join(map(str, d)) if isinstance(d, list) else d for v, d in values["deltas"].items()}
    return f"{name}={values['max_scale_level']}:{','.join(f'{v}={d}' for v, d in deltas.items())}"


class _FileOrFormat(argparse.Action):
    """``--file FILE``; but ``-f`` with the name of a format is that."""

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
        """Keep it."""
        is_format = option_string == "-f" and values in self._formats
        setattr(namespace, "formatter" if is_format else self.dest, values)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML in which nothing is said twice: the second would silently hide the first."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """A mapping."""
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        _demand_once([value for _, value in keys] if len(set(keys)) < len(keys) else [])
        return super().construct_mapping(node, deep=deep)


def _loaded(text: str) -> Any:
    """:raises ValueError: it is neither JSON nor YAML."""
    try:
        return json.loads(text, object_pairs_hook=_object)  # YAML refuses the tabs of JSON
    except json.JSONDecodeError:
        pass
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}{exc.problem or exc.context}") from None
    except yaml.YAMLError as exc:
        raise ValueError(" ".join(str(exc).split())) from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    _demand_once([name for name, _ in pairs])
    return dict(pairs)


def _demand_once(names: Sequence[str]) -> None:
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"{twice[0]!r} is said twice")


def _together(option: str, given: Iterable[Named]) -> dict[str, Any]:
    together: dict[str, Any] = {}
    for name, values in given:
        if name in together:
            raise WrongUsage(f"{option}: {name} is given twice")
        together[name] = values
    return together


def _number(name: str, what: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise argparse.ArgumentTypeError(f"{name}: {what} is a number, not {text!r}")
    return int(text)

# SPDX-License-Identifier: Apache-2.0
"""A registration is read from options and files, shown as options, and refused naming what cannot be read."""

from __future__ import annotations

import io
import json
import sys
import types

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.extensions.vnf.api.test_instances import DEMO
from watcher_sync.client.commands.arguments import WrongUsage
from watcher_sync.client.commands.registration import aspect, aspect_text, registration, vdu, vdu_text
from watcher_sync.client.commands.vnf import VnfCreate, VnfSet

WHERE = ("--cluster", "edge", "--namespace", "default", "--vnfd-id", "helloworld3")
VDU1 = ("--vdu", "VDU1=Deployment/vdu1,initial=1,min=1,max=3")
ASPECT = ("--aspect", "vdu1_aspect=2:VDU1=1")


def parsed(*arguments, command=VnfCreate):
    return command(None, None).get_parser("vnf").parse_args(arguments)


def read(*arguments, command=VnfCreate):
    return registration(parsed(*arguments, command=command))


def workload(kind="Deployment", name="vdu1"):
    return {"workload": {"kind": kind, "name": name}}


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("VDU1=Deployment/vdu1,initial=1", "VDU1", {**workload(), "initial": 1}),
        ("VDU1=Deployment/vdu1,initial=0,min=0,max=3", "VDU1", {**workload(), "initial": 0, "min": 0, "max": 3}),
        ("VDU1=Deployment/vdu1,max=3,initial=2", "VDU1", {**workload(), "max": 3, "initial": 2}),
        ("a b=StatefulSet/db.main-0,initial=12", "a b", {**workload("StatefulSet", "db.main-0"), "initial": 12}),
        ("VDU1=NewKind/x,initial=1", "VDU1", {**workload("NewKind", "x"), "initial": 1}),
        ("VDU1=Pod/a/b,initial=1", "VDU1", {**workload("Pod", "a/b"), "initial": 1}),
    ],
)
def test_a_vdu_is_read(text, name, values):
    assert vdu(text) == (name, values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "NAME=KIND/NAME,initial=N"),
        ("VDU1", "not 'VDU1'"),
        ("VDU1=", "not 'VDU1='"),
        ("=Deployment/vdu1,initial=1", "NAME=KIND/NAME"),
        ("VDU1=vdu1,initial=1", "KIND/NAME"),
        ("VDU1=/vdu1,initial=1", "KIND/NAME"),
        ("VDU1=Deployment/,initial=1", "KIND/NAME"),
        ("VDU1=Deployment/vdu1", "VDU1: initial=N is missing"),
        ("VDU1=Deployment/vdu1,min=1,max=2", "VDU1: initial=N is missing"),
        ("VDU1=Deployment/vdu1,initial", "VDU1: 'initial' is none of"),
        ("VDU1=Deployment/vdu1,initial=1,", "VDU1: '' is none of"),
        ("VDU1=Deployment/vdu1,initial=1,most=2", "VDU1: 'most=2' is none of"),
        ("VDU1=Deployment/vdu1,initial=1,initial=1", "VDU1: initial is given twice"),
        ("VDU1=Deployment/vdu1,initial=1,workload=2", "VDU1: 'workload=2' is none of"),
        ("VDU1=Deployment/vdu1,initial=", "VDU1: initial must be a number, not ''"),
        ("VDU1=Deployment/vdu1,initial=one", "VDU1: initial must be a number, not 'one'"),
        ("VDU1=Deployment/vdu1,initial=-1", "VDU1: initial must be a number, not '-1'"),
        ("VDU1=Deployment/vdu1,initial=1.0", "VDU1: initial must be a number, not '1.0'"),
        ("VDU1=Deployment/vdu1,initial= 1", "VDU1: initial must be a number, not ' 1'"),
        ("VDU1=Deployment/vdu1,initial=1,min=1_0", "VDU1: min must be a number, not '1_0'"),
        ("VDU1=Deployment/vdu1,initial=1,max=\u0661", "VDU1: max must be a number, not"),
        ("VDU1=Deployment/vdu1,initial=1,max=" + "9" * 5000, "VDU1: max must be a number, not"),
    ],
)
def test_a_vdu_that_cannot_be_read_is_refused_naming_the_option(capsys, text, says):
    with pytest.raises(SystemExit) as ended:
        parsed("--vdu", text)
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (2, 1)
    assert error.startswith("error: argument --vdu: ")
    assert says in error


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("a=2:VDU1=1", "a", {"max_scale_level": 2, "deltas": {"VDU1": 1}}),
        ("a=0:VDU1=1,VDU2=3", "a", {"max_scale_level": 0, "deltas": {"VDU1": 1, "VDU2": 3}}),
        ("a=3:VDU1=1+2+1,VDU2=1", "a", {"max_scale_level": 3, "deltas": {"VDU1": [1, 2, 1], "VDU2": 1}}),
        ("a=2:VDU:1=1", "a", {"max_scale_level": 2, "deltas": {"VDU:1": 1}}),
        ("a=2:VDU1=0", "a", {"max_scale_level": 2, "deltas": {"VDU1": 0}}),  # for the API to refuse
    ],
)
def test_an_aspect_is_read(text, name, values):
    assert aspect(text) == (name, values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "NAME=MAX:VDU=DELTA"),
        ("a", "not 'a'"),
        ("a=2", "not 'a=2'"),
        ("a=2:", "not 'a=2:'"),
        ("=2:VDU1=1", "NAME=MAX"),
        ("a=:VDU1=1", "NAME=MAX"),
        ("a=two:VDU1=1", "a: MAX must be a number, not 'two'"),
        ("a=-1:VDU1=1", "a: MAX must be a number, not '-1'"),
        ("a=2:VDU1", "a: 'VDU1' is no VDU=DELTA"),
        ("a=2:=1", "a: '=1' is no VDU=DELTA"),
        ("a=2:VDU1=1,", "a: '' is no VDU=DELTA"),
        ("a=2:VDU1=", "a: VDU1 must be a number, not ''"),
        ("a=2:VDU1=x", "a: VDU1 must be a number, not 'x'"),
        ("a=2:VDU1=-1", "a: VDU1 must be a number, not '-1'"),
        ("a=2:VDU1=1+", "a: VDU1 must be a number, not ''"),
        ("a=2:VDU1=1,VDU1=2", "a: VDU1 is given twice"),
    ],
)
def test_an_aspect_that_cannot_be_read_is_refused_naming_the_option(capsys, text, says):
    with pytest.raises(SystemExit) as ended:
        parsed("--aspect", text)
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (2, 1)
    assert error.startswith("error: argument --aspect: ")
    assert says in error


NAMES = st.text("abcVDU123_. -", min_size=1)
COUNTS = st.integers(0, 2**31 - 1)


@given(NAMES, NAMES, COUNTS, st.none() | COUNTS, st.none() | COUNTS)
def test_what_is_shown_of_a_vdu_can_be_given_again(name, named, initial, least, most):
    values = {**workload("Deployment", named), "initial": initial}
    values |= {key: value for key, value in (("min", least), ("max", most)) if value is not None}
    assert vdu(vdu_text(name, values)) == (name, values)
    assert vdu_text(name, {**values, "max": values.get("max")}) == vdu_text(name, values)


@given(NAMES, COUNTS, st.dictionaries(NAMES, COUNTS | st.lists(COUNTS, min_size=2), min_size=1))
def test_what_is_shown_of_an_aspect_can_be_given_again(name, highest, deltas):
    values = {"max_scale_level": highest, "deltas": deltas}
    assert aspect(aspect_text(name, values)) == (name, values)


def test_the_options_together_say_what_a_body_says():
    assert read(*WHERE, "--name", "demo", "--flavour-id", "simple", *VDU1, *ASPECT) == DEMO


def test_what_is_not_given_is_left_out():
    assert read(*WHERE, *VDU1) == {
        "cluster": "edge", "namespace": "default", "vnfd_id": "helloworld3", "vdus": DEMO["vdus"],
    }  # fmt: skip


def test_several_vdus_and_aspects_are_put_together():
    more = ("--vdu", "VDU2=StatefulSet/db,initial=2", "--aspect", "db=1:VDU2=1")
    body = read(*WHERE, *VDU1, *ASPECT, *more)
    assert list(body["vdus"]) == ["VDU1", "VDU2"]
    assert body["aspects"] == {**DEMO["aspects"], "db": {"max_scale_level": 1, "deltas": {"VDU2": 1}}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), r"^--cluster, --vnfd-id, --vdu: required, unless --file is given"),
        (WHERE, r"^--vdu: required"),
        ((*WHERE[2:], *VDU1), r"^--cluster: required"),
        ((*WHERE, *VDU1, "--cluster", ""), r"^--cluster: required"),
        ((*WHERE, *VDU1, *VDU1), r"^--vdu: VDU1 is given twice"),
        ((*WHERE, *VDU1, *ASPECT, *ASPECT), r"^--aspect: vdu1_aspect is given twice"),
        (("--file", "x", "--name", "demo"), r"^--file: cannot be combined with --name"),
        (("--file", "x", *VDU1), r"^--file: cannot be combined with --vdu"),
        (("--file", "x", *ASPECT), r"^--file: cannot be combined with --aspect"),
        (("--file", "x", "--flavour-id", "a"), r"^--file: cannot be combined with --flavour-id"),
    ],
)
def test_options_that_do_not_go_together_are_named(arguments, says):
    with pytest.raises(WrongUsage, match=says):
        read(*arguments)


@pytest.mark.parametrize("command", [VnfCreate, VnfSet])
@pytest.mark.parametrize("option", ["-f", "--file"])
@pytest.mark.parametrize(
    "text", [json.dumps(DEMO), json.dumps(DEMO, indent="\t"), yaml.safe_dump(DEMO), "\ufeff" + json.dumps(DEMO)]
)
def test_a_file_says_what_a_body_says(tmp_path, command, option, text):
    file = tmp_path / "demo"
    file.write_text(text, encoding="utf-8")
    given_id = ("a",) if command is VnfSet else ()
    assert read(*given_id, option, str(file), command=command) == DEMO


def test_yaml_may_repeat_itself_by_aliases_and_merges(tmp_path):
    file = tmp_path / "demo.yaml"
    file.write_text("vdus:\n  A: &a {initial: 1, min: 0}\n  B: {<<: *a, initial: 2}\n  C: *a\n")
    assert read("--file", str(file))["vdus"] == {
        "A": {"initial": 1, "min": 0}, "B": {"initial": 2, "min": 0}, "C": {"initial": 1, "min": 0},
    }  # fmt: skip


def test_a_dash_is_stdin(monkeypatch):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(json.dumps(DEMO).encode())))
    assert read("-f", "-") == DEMO


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "contains no object"),
        (b"[]", "contains no object"),
        (b"demo", "contains no object"),
        (b'{"vdus": {"A": 1, "A": 2}}', "'A' occurs twice"),
        (b"vdus:\n  A: 1\n  A: 2\n", "'A' occurs twice"),
        (b"a: b: c", "line 1, column 5"),
        (b"{", "line 1"),
        (b"a: 1\n---\nb: 2\n", "line 2"),
        (b"a: &x [*x]\n", "recursion"),
        (b"~: 1\n", "keys"),
        (b"a: !!python/object:os.system x\n", "line 1"),
        (b"\xff", "not UTF-8"),
        (b"a: \x01", "special characters"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, data, says):
    file = tmp_path / "demo.yaml"
    file.write_bytes(data)
    with pytest.raises(WrongUsage) as refused:
        read("--file", str(file))
    assert str(refused.value).startswith(f"--file: {file}")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "says"), [("nowhere/demo.yaml", "No such file"), (".", "directory"), ("a\0b", "null")]
)
def test_a_file_that_cannot_be_opened_is_named_with_the_reason(name, says):
    with pytest.raises(WrongUsage, match=says) as refused:
        read("--file", name)
    assert str(refused.value).startswith(f"--file: {name} cannot be read: ")


@pytest.mark.parametrize("name", ["json", "yaml", "table", "value", "shell"])
def test_the_short_option_with_the_name_of_a_format_is_the_format(name):
    options = parsed("-f", "demo.yaml", "-f", name)
    assert (options.file, options.formatter) == ("demo.yaml", name)
    options = parsed("--file", name, "--format", "json")
    assert (options.file, options.formatter) == (name, "json")


def test_a_format_that_there_is_not_is_refused_naming_the_option(capsys):
    with pytest.raises(SystemExit):
        parsed("--format", "demo.yaml")
    assert "argument --format: invalid choice: 'demo.yaml'" in capsys.readouterr().err

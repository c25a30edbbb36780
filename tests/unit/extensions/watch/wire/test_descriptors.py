# SPDX-License-Identifier: Apache-2.0
"""The generated modules have the names and the numbers of the dialect, and are what the generator makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from watcher_sync.extensions.watch.wire import datamodel_pb2, events_pb2

ROOT = Path(__file__).parents[5]
WATCH = ROOT / "watcher_sync/extensions/watch/wire"
GENERATOR = "1.75.1"

# The numbers of the Axway dialect (agent-sdk, proto/central/events/v1), and our additions from 100 on.
MESSAGES = {
    "central.events.v1.Request": {
        "selfLink": 1, "token": 2, "requestType": 3, "agentStatus": 4, "capabilities": 5, "pingResponse": 6,
        "resumeAfterSequence": 100,
    },
    "central.events.v1.AgentStatus": {"state": 1, "message": 2, "context": 3},
    "central.events.v1.AgentContext": {"environmentName": 2, "agentName": 3},
    "central.events.v1.PingResponse": {"id": 1},
    "central.events.v1.Organization": {"id": 1},
    "central.events.v1.Event": {
        "id": 1, "time": 2, "version": 3, "product": 4, "correlationId": 5, "organization": 6, "type": 7,
        "payload": 8, "metadata": 9,
    },
    "central.events.v1.EventMeta": {
        "watchTopicID": 1, "watchTopicSelfLink": 2, "sequenceID": 3, "subresource": 4, "actionDetails": 5,
        "prevSequenceID": 100, "versions": 101, "unset": 102,
    },
    "central.events.v1.EventMeta.VersionsEntry": {"key": 1, "value": 2},
    "central.events.v1.datamodel.ResourceInstance": {"group": 1, "kind": 2, "name": 4, "metadata": 5, "attributes": 6},
    "central.events.v1.datamodel.ResourceInstance.AttributesEntry": {"key": 1, "value": 2},
    "central.events.v1.datamodel.Metadata": {"id": 1, "scope": 2, "selfLink": 6, "references": 7},
    "central.events.v1.datamodel.Metadata.ScopeKind": {"id": 1, "kind": 2, "name": 3, "selfLink": 4},
    "central.events.v1.datamodel.Reference": {
        "id": 1, "kind": 2, "name": 3, "scopeKind": 4, "scopeName": 5, "selfLink": 6, "type": 7,
    },
}  # fmt: skip
ENUMS = {
    "central.events.v1.RequestType": {"TOKEN_REFRESH": 0, "AGENT_STATUS": 1, "PING_RESPONSE": 2},
    "central.events.v1.Event.Type": {
        "CREATED": 0, "UPDATED": 1, "DELETED": 2, "SUBRESOURCEUPDATED": 3, "TRIGGERACTION": 4, "PING": 5,
    },
    "central.events.v1.datamodel.Reference.Type": {"SOFT": 0, "HARD": 1},
}  # fmt: skip
# Presence on the wire: the fields that the dialect declares as optional, and ours.
OPTIONAL = {
    "central.events.v1.Request": {"requestType", "agentStatus", "pingResponse", "resumeAfterSequence"},
    "central.events.v1.AgentStatus": {"context"},
    "central.events.v1.EventMeta": {"actionDetails", "prevSequenceID"},
}
REPEATED = {
    "central.events.v1.Request": {"capabilities"},
    "central.events.v1.EventMeta": {"versions", "unset"},
    "central.events.v1.datamodel.ResourceInstance": {"attributes"},
    "central.events.v1.datamodel.Metadata": {"references"},
}
# The types of fields that are no string.
TYPES = {
    "central.events.v1.Request": {
        "requestType": "central.events.v1.RequestType",
        "agentStatus": "central.events.v1.AgentStatus",
        "pingResponse": "central.events.v1.PingResponse",
        "resumeAfterSequence": "int64",
    },
    "central.events.v1.AgentStatus": {"context": "central.events.v1.AgentContext"},
    "central.events.v1.Event": {
        "organization": "central.events.v1.Organization",
        "type": "central.events.v1.Event.Type",
        "payload": "central.events.v1.datamodel.ResourceInstance",
        "metadata": "central.events.v1.EventMeta",
    },
    "central.events.v1.EventMeta": {
        "sequenceID": "int64",
        "actionDetails": "google.protobuf.Any",
        "prevSequenceID": "int64",
        "versions": "central.events.v1.EventMeta.VersionsEntry",
    },
    "central.events.v1.datamodel.ResourceInstance": {
        "metadata": "central.events.v1.datamodel.Metadata",
        "attributes": "central.events.v1.datamodel.ResourceInstance.AttributesEntry",
    },
    "central.events.v1.datamodel.Metadata": {
        "scope": "central.events.v1.datamodel.Metadata.ScopeKind",
        "references": "central.events.v1.datamodel.Reference",
    },
    "central.events.v1.datamodel.Reference": {"type": "central.events.v1.datamodel.Reference.Type"},
}


def descriptors():
    """Every message of both files, by its full name."""
    found, todo = {}, []
    for module in (events_pb2, datamodel_pb2):
        todo += module.DESCRIPTOR.message_types_by_name.values()
    while todo:
        descriptor = todo.pop()
        found[descriptor.full_name] = descriptor
        todo += descriptor.nested_types
    return found


def enums():
    """Every enumeration of both files, by its full name."""
    found = [*events_pb2.DESCRIPTOR.enum_types_by_name.values()]
    found += [each for descriptor in descriptors().values() for each in descriptor.enum_types]
    return {each.full_name: {value.name: value.number for value in each.values} for each in found}


def type_of(field):
    """string, int64, or the full name of what the field holds."""
    if field.message_type is not None:
        return field.message_type.full_name
    if field.enum_type is not None:
        return field.enum_type.full_name
    return {field.TYPE_STRING: "string", field.TYPE_INT64: "int64"}[field.type]


def test_every_field_has_the_number_of_the_dialect():
    assert {n: {f.name: f.number for f in d.fields} for n, d in descriptors().items()} == MESSAGES


def test_every_field_has_the_type_of_the_dialect():
    found = {n: {f.name: t for f in d.fields if (t := type_of(f)) != "string"} for n, d in descriptors().items()}
    assert {name: fields for name, fields in found.items() if fields} == TYPES


def test_every_enumeration_has_the_numbers_of_the_dialect():
    assert enums() == ENUMS


def test_the_same_fields_as_in_the_dialect_are_optional():
    found = {
        name: {each.name.removeprefix("_") for each in descriptor.oneofs} for name, descriptor in descriptors().items()
    }
    assert {name: fields for name, fields in found.items() if fields} == OPTIONAL


def test_the_same_fields_as_in_the_dialect_are_repeated():
    found = {name: {f.name for f in d.fields if f.is_repeated} for name, d in descriptors().items()}
    assert {name: fields for name, fields in found.items() if fields} == REPEATED


def test_the_method_has_the_path_of_the_dialect():
    (service,) = events_pb2.DESCRIPTOR.services_by_name.values()
    (method,) = service.methods
    assert f"/{service.full_name}/{method.name}" == "/central.events.v1.watch/subscribe"
    assert (method.client_streaming, method.server_streaming) == (True, True)
    assert (method.input_type.name, method.output_type.name) == ("Request", "Event")


def generator():
    """A Python that has the generator of proto-requirements.txt; None: there is none."""
    version = "import importlib.metadata as m, grpc_tools; print(m.version('grpcio-tools'))"
    for python in (str(ROOT / "build/proto/bin/python"), sys.executable):
        try:
            found = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
        if found == GENERATOR:
            return python
    return None


def test_the_requirement_is_the_generator_that_the_test_runs():
    assert f"grpcio-tools=={GENERATOR}" in (ROOT / "proto-requirements.txt").read_text()


def test_the_modules_are_what_the_generator_makes(tmp_path):
    python = generator()
    if python is None:
        pytest.skip(f"grpcio-tools {GENERATOR} is not installed; make proto installs it")
    sources = [path.relative_to(ROOT).as_posix() for path in sorted(WATCH.glob("*.proto"))]
    arguments = ["-m", "grpc_tools.protoc", "--proto_path=.", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([python, *arguments, *sources], cwd=ROOT, check=True)
    made = {path.name: path.read_text() for path in (tmp_path / "watcher_sync/extensions/watch/wire").iterdir()}
    assert made == {path.name: path.read_text() for path in WATCH.glob("*_pb2.py*")}

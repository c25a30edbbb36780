# SPDX-License-Identifier: Apache-2.0
"""The messages of the Axway dialect from its documentation alone, in a descriptor pool of their own.

Nothing here comes from the generated modules: a mistake in their numbers would be a failure of a client.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

METHOD: Final = "/central.events.v1.watch/subscribe"

_TABLE: Final = """
Request: selfLink 1 string, token 2 string, requestType 3 RequestType?, agentStatus 4 AgentStatus?,
  capabilities 5 string*, pingResponse 6 PingResponse?{ours}
AgentStatus: state 1 string, message 2 string, context 3 AgentContext?
AgentContext: environmentName 2 string, agentName 3 string
PingResponse: id 1 string
Organization: id 1 string
Event: id 1 string, time 2 string, version 3 string, product 4 string, correlationId 5 string,
  organization 6 Organization, type 7 Type, payload 8 ResourceInstance, metadata 9 EventMeta
EventMeta: watchTopicID 1 string, watchTopicSelfLink 2 string, sequenceID 3 int64, subresource 4 string,
  actionDetails 5 Any?{meta}
ResourceInstance: group 1 string, kind 2 string, name 4 string, metadata 5 Metadata, attributes 6 map
Metadata: id 1 string, scope 2 ScopeKind, selfLink 6 string, references 7 Reference*
ScopeKind: id 1 string, kind 2 string, name 3 string, selfLink 4 string
Reference: id 1 string, kind 2 string, name 3 string, scopeKind 4 string, scopeName 5 string, selfLink 6 string,
  type 7 ReferenceType
"""
_ENUMS: Final = {
    "RequestType": ("TOKEN_REFRESH", "AGENT_STATUS", "PING_RESPONSE"),
    "Type": ("CREATED", "UPDATED", "DELETED", "SUBRESOURCEUPDATED", "TRIGGERACTION", "PING"),
    "ReferenceType": ("SOFT", "HARD"),
}
_ANY: Final = ".google.protobuf.Any"


def _add_field(message: Any, text: str) -> None:
    name, number, kind = text.split()
    field = message.field.add(name=name, number=int(number), label=3 if kind.endswith("*") else 1)
    if kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    kind = kind.rstrip("*?")
    if kind == "map":
        entry = message.nested_type.add(name="AttributesEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=9, label=1)
        entry.field.add(name="value", number=2, type=9, label=1)
        field.type, field.label, field.type_name = 11, 3, f".axway.{message.name}.AttributesEntry"
    elif kind in ("string", "int64"):
        field.type = 9 if kind == "string" else 3
    elif kind in _ENUMS:
        field.type, field.type_name = 14, f".axway.{kind}"
    else:
        field.type, field.type_name = 11, _ANY if kind == "Any" else f".axway.{kind}"


class Dialect:
    """The message classes of one side of the wire.

    :param ours: with the additions of watcher_sync, which a stock client does not know.
    """

    def __init__(self, *, ours: bool = False) -> None:
        file = descriptor_pb2.FileDescriptorProto(name="axway.proto", package="axway", syntax="proto3")
        file.dependency.append("google/protobuf/any.proto")
        for name, values in _ENUMS.items():
            enum = file.enum_type.add(name=name)
            for number, value in enumerate(values):
                enum.value.add(name=value, number=number)
        additions = ", resumeAfterSequence 100 int64?", ", prevSequenceID 100 int64?"
        table = _TABLE.format(**dict(zip(("ours", "meta"), additions if ours else ("", ""), strict=True)))
        for line in table.replace("\n  ", " ").strip().splitlines():
            name, _, fields = line.partition(":")
            message = file.message_type.add(name=name)
            for field in fields.split(","):
                _add_field(message, field)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(any_pb2.DESCRIPTOR.serialized_pb))
        pool.Add(file)
        self._pool = pool
        self.request: Any = self._class("Request")
        self.event: Any = self._class("Event")

    def _class(self, name: str) -> Any:
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"axway.{name}"))


STOCK: Final = Dialect()
OURS: Final = Dialect(ours=True)
TOKEN_REFRESH, AGENT_STATUS, PING_RESPONSE = range(3)
CREATED, UPDATED, DELETED, SUBRESOURCEUPDATED, TRIGGERACTION, PING = range(6)

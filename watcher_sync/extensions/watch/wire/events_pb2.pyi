from google.protobuf import any_pb2 as _any_pb2
from watcher_sync.extensions.watch.wire import datamodel_pb2 as _datamodel_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RequestType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKEN_REFRESH: _ClassVar[RequestType]
    AGENT_STATUS: _ClassVar[RequestType]
    PING_RESPONSE: _ClassVar[RequestType]
TOKEN_REFRESH: RequestType
AGENT_STATUS: RequestType
PING_RESPONSE: RequestType

class Request(_message.Message):
    __slots__ = ("selfLink", "token", "requestType", "agentStatus", "capabilities", "pingResponse", "resumeAfterSequence")
    SELFLINK_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUESTTYPE_FIELD_NUMBER: _ClassVar[int]
    AGENTSTATUS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    PINGRESPONSE_FIELD_NUMBER: _ClassVar[int]
    RESUMEAFTERSEQUENCE_FIELD_NUMBER: _ClassVar[int]
    selfLink: str
    token: str
    requestType: RequestType
    agentStatus: AgentStatus
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    pingResponse: PingResponse
    resumeAfterSequence: int
    def __init__(self, selfLink: _Optional[str] = ..., token: _Optional[str] = ..., requestType: _Optional[_Union[RequestType, str]] = ..., agentStatus: _Optional[_Union[AgentStatus, _Mapping]] = ..., capabilities: _Optional[_Iterable[str]] = ..., pingResponse: _Optional[_Union[PingResponse, _Mapping]] = ..., resumeAfterSequence: _Optional[int] = ...) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("state", "message", "context")
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    state: str
    message: str
    context: AgentContext
    def __init__(self, state: _Optional[str] = ..., message: _Optional[str] = ..., context: _Optional[_Union[AgentContext, _Mapping]] = ...) -> None: ...

class AgentContext(_message.Message):
    __slots__ = ("environmentName", "agentName")
    ENVIRONMENTNAME_FIELD_NUMBER: _ClassVar[int]
    AGENTNAME_FIELD_NUMBER: _ClassVar[int]
    environmentName: str
    agentName: str
    def __init__(self, environmentName: _Optional[str] = ..., agentName: _Optional[str] = ...) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Organization(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("id", "time", "version", "product", "correlationId", "organization", "type", "payload", "metadata")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CREATED: _ClassVar[Event.Type]
        UPDATED: _ClassVar[Event.Type]
        DELETED: _ClassVar[Event.Type]
        SUBRESOURCEUPDATED: _ClassVar[Event.Type]
        TRIGGERACTION: _ClassVar[Event.Type]
        PING: _ClassVar[Event.Type]
    CREATED: Event.Type
    UPDATED: Event.Type
    DELETED: Event.Type
    SUBRESOURCEUPDATED: Event.Type
    TRIGGERACTION: Event.Type
    PING: Event.Type
    ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    CORRELATIONID_FIELD_NUMBER: _ClassVar[int]
    ORGANIZATION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    time: str
    version: str
    product: str
    correlationId: str
    organization: Organization
    type: Event.Type
    payload: _datamodel_pb2.ResourceInstance
    metadata: EventMeta
    def __init__(self, id: _Optional[str] = ..., time: _Optional[str] = ..., version: _Optional[str] = ..., product: _Optional[str] = ..., correlationId: _Optional[str] = ..., organization: _Optional[_Union[Organization, _Mapping]] = ..., type: _Optional[_Union[Event.Type, str]] = ..., payload: _Optional[_Union[_datamodel_pb2.ResourceInstance, _Mapping]] = ..., metadata: _Optional[_Union[EventMeta, _Mapping]] = ...) -> None: ...

class EventMeta(_message.Message):
    __slots__ = ("watchTopicID", "watchTopicSelfLink", "sequenceID", "subresource", "actionDetails", "prevSequenceID", "versions", "unset")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WATCHTOPICID_FIELD_NUMBER: _ClassVar[int]
    WATCHTOPICSELFLINK_FIELD_NUMBER: _ClassVar[int]
    SEQUENCEID_FIELD_NUMBER: _ClassVar[int]
    SUBRESOURCE_FIELD_NUMBER: _ClassVar[int]
    ACTIONDETAILS_FIELD_NUMBER: _ClassVar[int]
    PREVSEQUENCEID_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    UNSET_FIELD_NUMBER: _ClassVar[int]
    watchTopicID: str
    watchTopicSelfLink: str
    sequenceID: int
    subresource: str
    actionDetails: _any_pb2.Any
    prevSequenceID: int
    versions: _containers.ScalarMap[str, str]
    unset: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, watchTopicID: _Optional[str] = ..., watchTopicSelfLink: _Optional[str] = ..., sequenceID: _Optional[int] = ..., subresource: _Optional[str] = ..., actionDetails: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., prevSequenceID: _Optional[int] = ..., versions: _Optional[_Mapping[str, str]] = ..., unset: _Optional[_Iterable[str]] = ...) -> None: ...

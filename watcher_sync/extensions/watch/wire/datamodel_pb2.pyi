from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceInstance(_message.Message):
    __slots__ = ("group", "kind", "name", "metadata", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    group: str
    kind: str
    name: str
    metadata: Metadata
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, group: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("id", "scope", "selfLink", "references")
    class ScopeKind(_message.Message):
        __slots__ = ("id", "kind", "name", "selfLink")
        ID_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        SELFLINK_FIELD_NUMBER: _ClassVar[int]
        id: str
        kind: str
        name: str
        selfLink: str
        def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., selfLink: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SELFLINK_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    id: str
    scope: Metadata.ScopeKind
    selfLink: str
    references: _containers.RepeatedCompositeFieldContainer[Reference]
    def __init__(self, id: _Optional[str] = ..., scope: _Optional[_Union[Metadata.ScopeKind, _Mapping]] = ..., selfLink: _Optional[str] = ..., references: _Optional[_Iterable[_Union[Reference, _Mapping]]] = ...) -> None: ...

class Reference(_message.Message):
    __slots__ = ("id", "kind", "name", "scopeKind", "scopeName", "selfLink", "type")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SOFT: _ClassVar[Reference.Type]
        HARD: _ClassVar[Reference.Type]
    SOFT: Reference.Type
    HARD: Reference.Type
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPEKIND_FIELD_NUMBER: _ClassVar[int]
    SCOPENAME_FIELD_NUMBER: _ClassVar[int]
    SELFLINK_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    name: str
    scopeKind: str
    scopeName: str
    selfLink: str
    type: Reference.Type
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., scopeKind: _Optional[str] = ..., scopeName: _Optional[str] = ..., selfLink: _Optional[str] = ..., type: _Optional[_Union[Reference.Type, str]] = ...) -> None: ...

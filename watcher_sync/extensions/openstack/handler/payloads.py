# SPDX-License-Identifier: Apache-2.0
"""The payloads of Nova's versioned notifications, as far as the model uses them.

Nova wraps each object as ``{nova_object.name, nova_object.namespace, nova_object.version, nova_object.data}``. Within a
major version Nova only adds fields. So the module checks (payload name, major version), and never a minor version. A
field that an older Nova does not send is UNSET, which differs from null.

The structs are partial: the decoder skips fields that the model does not need. Attributes have the model's names,
encoded names are Nova's.

Guaranteed: :func:`read` returns values of the declared types, or raises
:class:`~watcher_sync.exceptions.InvalidEvent` with the path of the field and without its value. Not guaranteed: that
the values are consistent with each other.

Pure functions, for any thread. Source: nova/notifications/objects.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, field

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.kinds import Count, Id, Text

NAMESPACE: Literal["nova"] = "nova"
DATA = "payload.nova_object.data"
"""Path of the fields of a payload's own object."""


class NovaObject(
    msgspec.Struct,
    gc=False,
    rename={"namespace": "nova_object.namespace", "version": "nova_object.version", "data": "nova_object.data"},
):
    """What wraps an object inside a payload."""

    namespace: Literal["nova"] = NAMESPACE
    version: str = "1.0"


class FlavorData(msgspec.Struct, gc=False):
    """FlavorPayload 1.x. Payloads before 1.1 have neither name nor swap, before 1.2 no extra specs."""

    vcpus: Count | UnsetType = UNSET
    memory_mb: Count | UnsetType = UNSET
    root_gb: Count | UnsetType = UNSET
    ephemeral_gb: Count | UnsetType = UNSET
    swap_mb: Count | UnsetType = field(default=UNSET, name="swap")
    flavor_id: Text | UnsetType | None = field(default=UNSET, name="flavorid")
    flavor_name: Text | UnsetType | None = field(default=UNSET, name="name")
    extra_specs: dict[str, str] | UnsetType | None = UNSET


class NotifiedFlavor(NovaObject, gc=False, kw_only=True, rename={"data": "nova_object.data"}):
    """The flavor that an instance has now."""

    data: FlavorData


class IpData(msgspec.Struct, gc=False):
    """IpPayload 1.x."""

    address: Text


class Ip(NovaObject, gc=False, kw_only=True, rename={"data": "nova_object.data"}):
    """A fixed address."""

    data: IpData


class FaultData(msgspec.Struct, gc=False):
    """ExceptionPayload 1.x."""

    type: Text | UnsetType | None = field(default=UNSET, name="exception")
    message: str | UnsetType | None = field(default=UNSET, name="exception_message")


class NotifiedFault(NovaObject, gc=False, kw_only=True, rename={"data": "nova_object.data"}):
    """What went wrong, in an error event."""

    data: FaultData


class StateUpdateData(msgspec.Struct, gc=False):
    """InstanceStateUpdatePayload 1.x: the states before and after the save."""

    old_state: Text | UnsetType | None = UNSET
    old_task_state: Text | UnsetType | None = UNSET
    new_task_state: Text | UnsetType | None = UNSET


class StateUpdate(NovaObject, gc=False, kw_only=True, rename={"data": "nova_object.data"}):
    """The state change of an instance.update."""

    data: StateUpdateData


class InstanceData(msgspec.Struct, gc=False, kw_only=True):
    """InstancePayload and all that extend it."""

    id: Id = field(name="uuid")
    name: Text | UnsetType | None = field(default=UNSET, name="display_name")
    host_name: Text | UnsetType | None = UNSET
    project_id: Text | UnsetType | None = field(default=UNSET, name="tenant_id")
    user_id: Text | UnsetType | None = UNSET
    host: Id | UnsetType | None = UNSET
    node: Text | UnsetType | None = UNSET
    state: Text | UnsetType | None = UNSET
    task_state: Text | UnsetType | None = UNSET
    power_state: Text | UnsetType | None = UNSET
    locked: bool | UnsetType = UNSET
    locked_reason: str | UnsetType | None = UNSET
    flavor: NotifiedFlavor | UnsetType | None = UNSET
    image_id: Text | UnsetType | None = field(default=UNSET, name="image_uuid")
    metadata: dict[str, str] | UnsetType = UNSET
    key_name: Text | UnsetType | None = UNSET
    tags: list[Text] | UnsetType | None = UNSET
    availability_zone: Text | UnsetType | None = UNSET
    ip_addresses: list[Ip] | UnsetType = UNSET
    created_at: datetime.datetime | UnsetType | None = UNSET
    updated_at: datetime.datetime | UnsetType | None = UNSET
    launched_at: datetime.datetime | UnsetType | None = UNSET
    deleted_at: datetime.datetime | UnsetType | None = UNSET
    terminated_at: datetime.datetime | UnsetType | None = UNSET
    state_update: StateUpdate | UnsetType | None = UNSET
    fault: NotifiedFault | UnsetType | None = UNSET
    request_id: Text | UnsetType | None = UNSET


class ImageData(msgspec.Struct, gc=False):
    """ImageMetaPayload 1.x."""

    id: Text | UnsetType | None = UNSET


class NotifiedImage(NovaObject, gc=False, kw_only=True, rename={"data": "nova_object.data"}):
    """The image of a request."""

    data: ImageData


class RequestSpecData(msgspec.Struct, gc=False, kw_only=True):
    """RequestSpecPayload 1.x."""

    project_id: Text | UnsetType | None = UNSET
    user_id: Text | UnsetType | None = UNSET
    availability_zone: Text | UnsetType | None = UNSET
    flavor: NotifiedFlavor | UnsetType | None = UNSET
    image: NotifiedImage | UnsetType | None = UNSET


class RequestSpec(NovaObject, gc=False, kw_only=True, rename={"data": "nova_object.data"}):
    """What a scheduler was asked for."""

    data: RequestSpecData


class ComputeTaskData(msgspec.Struct, gc=False, kw_only=True):
    """ComputeTaskPayload 1.x: a conductor failed to place an instance."""

    id: Id = field(name="instance_uuid")
    state: Text | UnsetType | None = UNSET
    request: RequestSpec | UnsetType | None = field(default=UNSET, name="request_spec")
    fault: NotifiedFault | UnsetType | None = field(default=UNSET, name="reason")


class ServiceData(msgspec.Struct, gc=False, kw_only=True):
    """ServiceStatusPayload 1.x."""

    host: Id | None
    binary: Text | None
    disabled: bool | UnsetType = UNSET
    disabled_reason: str | UnsetType | None = UNSET
    forced_down: bool | UnsetType = UNSET


class AggregateData(msgspec.Struct, gc=False, kw_only=True):
    """AggregatePayload 1.x."""

    id: Id = field(name="uuid")
    number: Count | UnsetType | None = field(default=UNSET, name="id")
    name: Text | UnsetType = UNSET
    hosts: list[Id] | UnsetType | None = UNSET
    metadata: dict[str, str | None] | UnsetType | None = UNSET


class _OpenedPayload(msgspec.Struct, gc=False, rename=lambda name: f"nova_object.{name}"):
    """The outermost object of a payload in JSON text, its data not decoded yet."""

    name: Any = UNSET
    namespace: Any = UNSET
    version: Any = UNSET
    data: msgspec.Raw | UnsetType = UNSET


_open = msgspec.json.Decoder(_OpenedPayload).decode
_encode = msgspec.json.Encoder().encode

T = TypeVar("T", bound=msgspec.Struct)


class Contract(Generic[T]):
    """Which payloads we understand, and as what.

    :ivar majors: payload name -> the major versions whose fields mean what we think.
    :ivar type: what they are decoded to.
    """

    def __init__(self, type_: type[T], majors: Mapping[str, frozenset[str]]) -> None:
        self.type = type_
        self.majors = majors
        self.decode = msgspec.json.Decoder(type_).decode
        whole = msgspec.defstruct(
            f"Whole{type_.__name__}",
            [("name", str), ("namespace", str), ("version", str), ("data", type_)],
            rename=lambda name: f"nova_object.{name}",
            gc=False,
        )
        self.decode_whole: Callable[[Any], Any] = msgspec.json.Decoder(whole).decode


FIRST = frozenset({"1"})
FIRST_TWO = frozenset({"1", "2"})
"""2.0 of these payloads only took bandwidth away."""

INSTANCE: Contract[InstanceData] = Contract(
    InstanceData,
    {
        "InstancePayload": FIRST,
        "InstanceActionPayload": FIRST,
        "InstanceActionRebuildPayload": FIRST,
        "InstanceActionRescuePayload": FIRST,
        "InstanceActionResizePrepPayload": FIRST,
        "InstanceActionSharePayload": FIRST,
        "InstanceActionSnapshotPayload": FIRST,
        "InstanceActionVolumePayload": FIRST,
        "InstanceActionVolumeSwapPayload": FIRST,
        "InstanceCreatePayload": FIRST,
        "InstanceExistsPayload": FIRST_TWO,
        "InstanceUpdatePayload": FIRST_TWO,
    },
)
COMPUTE_TASK: Contract[ComputeTaskData] = Contract(ComputeTaskData, {"ComputeTaskPayload": FIRST})
SERVICE: Contract[ServiceData] = Contract(ServiceData, {"ServiceStatusPayload": FIRST})
EXCEPTION: Contract[FaultData] = Contract(FaultData, {"ExceptionPayload": FIRST})
AGGREGATE: Contract[AggregateData] = Contract(AggregateData, {"AggregatePayload": FIRST})


def read(payload: Any, contract: Contract[T]) -> T:
    """Take a payload through the gate and decode what the contract needs of it.

    :param payload: the decoded JSON document (a dict), or JSON text as bytes.
    :raises InvalidEvent: naming the field by its path.
    """
    if isinstance(payload, dict):
        return _from_document(payload, contract)
    if not isinstance(payload, (bytes, bytearray, memoryview, msgspec.Raw)):
        raise InvalidEvent(f"payload: Expected object, got {type(payload).__name__}")
    try:
        whole = contract.decode_whole(payload)
    except UNDECODABLE:
        return _from_text(payload, contract)
    _gate(whole.name, whole.namespace, whole.version, contract)
    data: T = whole.data
    return data


def _from_document(payload: dict[str, Any], contract: Contract[T]) -> T:
    _gate(
        payload.get("nova_object.name", UNSET),
        payload.get("nova_object.namespace", UNSET),
        payload.get("nova_object.version", UNSET),
        contract,
    )
    if (body := payload.get("nova_object.data", UNSET)) is UNSET:
        raise InvalidEvent(f"{DATA}: missing")
    try:
        data = msgspec.convert(body, contract.type)
        # Python's json lets lone surrogates through, which nothing after us could encode.
        _encode(data)
    except msgspec.ValidationError as exc:
        raise InvalidEvent(reason(DATA, str(exc))) from None
    except UnicodeError:
        raise InvalidEvent(f"{DATA}: text that is not valid Unicode") from None
    return data


def _from_text(payload: Any, contract: Contract[T]) -> T:
    """In two steps, so that a payload that we do not know is refused for that, and not for its fields."""
    where = "payload"
    try:
        opened = _open(payload)
        _gate(opened.name, opened.namespace, opened.version, contract)
        where = DATA
        if opened.data is UNSET:
            raise InvalidEvent(f"{DATA}: missing")
        return contract.decode(opened.data)
    except msgspec.DecodeError as exc:
        raise InvalidEvent(reason(where, str(exc))) from None
    except UnicodeError:
        raise InvalidEvent(f"{where}: text that is not valid Unicode") from None
    except RecursionError:
        raise InvalidEvent(f"{where}: nested too deeply") from None


def refuse_nested(nested: NovaObject, path: str) -> NoReturn:
    """An object inside a payload has a major version that we do not know.

    :raises InvalidEvent: naming the field, which is at ``path`` in the payload's data.
    """
    raise InvalidEvent(f"{DATA}.{path}.nova_object.version: Expected 1.x, got {nested.version[:64]!r}")


def reason(where: str, message: str) -> str:
    """msgspec's ``Expected `int`, got `str` - at `$.flavor.x``` -> ``payload...flavor.x: Expected int, got str``."""
    reason, _, path = message.rpartition(" - at ") if " - at " in message else (message, "", "")
    where += path.partition("`$")[2].rpartition("`")[0]
    if reason.startswith(_MISSING):
        return f"{where}.{reason.removeprefix(_MISSING).rpartition('`')[0]}: missing"
    if reason.startswith("Invalid enum value"):
        reason = f"Expected {NAMESPACE}"
    return f"{where}: {reason.replace('`', '')}"


_MISSING = "Object missing required field `"


def _gate(name: Any, namespace: Any, version: Any, contract: Contract[Any]) -> None:
    """Only what we know goes through: (payload name, major version) of Nova's own namespace."""
    if namespace != NAMESPACE:
        _refuse("namespace", f"Expected {NAMESPACE}", namespace)
    majors = contract.majors.get(name) if type(name) is str else None
    if majors is None:
        _refuse("name", f"Expected one of {', '.join(contract.majors)}", name)
    if type(version) is not str or version.partition(".")[0] not in majors:
        _refuse("version", f"Expected {name} {' or '.join(f'{major}.x' for major in sorted(majors))}", version)


def _refuse(which: str, expected: str, got: Any) -> NoReturn:
    if got is UNSET:
        raise InvalidEvent(f"payload.nova_object.{which}: missing")
    shown = repr(got[:64]) if isinstance(got, str) else type(got).__name__
    raise InvalidEvent(f"payload.nova_object.{which}: {expected}, got {shown}")

# SPDX-License-Identifier: Apache-2.0
"""The kinds of DCM: providers, their bindings to sources, and service type instances."""

from __future__ import annotations

import datetime
import functools
import hashlib
from typing import Annotated, Any, Literal

import msgspec

from watcher_sync.model.kinds import DependsOn, Derived, Doc, Entity, In, LongText, Reference, Text, kind
from watcher_sync.model.view import View


@kind(
    "provider",
    plural="providers",
    indexes=("name", "state", "agent_name"),
    low_cardinality=("state",),
    filter_indexes=("name", "state", "agent_name"),
)
class Provider(Entity, frozen=True, kw_only=True, gc=False):
    """What is known of a DCM provider, for one service type of its. Id: ``<provider>/<service type>``.

    It exists from an agent's first warning on: no agent ever warned about a provider that is not here.
    """

    name: Annotated[Text | None, In("state"), Doc("Name of the provider.")] = None
    service_type: Annotated[Text | None, In("state"), Doc("The service type that the state is of.")] = None
    state: Annotated[
        Literal["available", "degraded", "unavailable"] | None, In("state"), Doc("What its agent said last.")
    ] = None
    reason: Annotated[LongText | None, In("state"), Doc("Why, in the agent's words.")] = None
    agent_name: Annotated[Text | None, In("state"), Doc("The environment agent that said it.")] = None
    updated_at: Annotated[datetime.datetime | None, In("state"), Doc("When it was said.")] = None


@kind(
    "provider_binding",
    plural="provider_bindings",
    indexes=("provider_name", "source"),
    filter_indexes=("provider_name", "source"),
)
class ProviderBinding(Entity, frozen=True, kw_only=True, gc=False):
    """A source that may report on the instances of a DCM provider, because it was the first. Id: a digest of both."""

    provider_name: Annotated[Text | None, In("state"), Doc("Name of the provider, as in its instances.")] = None
    source: Annotated[Text | None, In("state"), Doc("The CloudEvents source, or the account in the NATS subject.")] = (
        None
    )


ProviderId = Annotated[str, msgspec.Meta(max_length=511)]
"""``<provider>/<service type>``."""


@functools.lru_cache(maxsize=4096)
def binding_id(provider_name: str, source: str) -> str:
    """The id of the binding of a source to a provider. Both are arbitrary texts, so it is a digest."""
    names = f"{len(provider_name)} {provider_name} {source}"
    return hashlib.blake2b(names.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def provider_id(provider_name: str, service_type: str) -> str:
    """The id of a provider in one service type of its."""
    return f"{provider_name}/{service_type}"


def state_of_provider(view: View, instance: ServiceTypeInstance) -> str | None:
    """The state of the instance's provider in the instance's service type."""
    provider = None if instance.provider_id is None else view.get("provider", instance.provider_id)
    return provider.state if isinstance(provider, Provider) else None


def provider_of(_view: View, instance: ServiceTypeInstance) -> str | None:
    """The id of the instance's provider; None as long as the provider or the service type is unknown."""
    if instance.provider_name is None or instance.service_type is None:
        return None
    return provider_id(instance.provider_name, instance.service_type)


def last_update(_view: View, instance: ServiceTypeInstance) -> datetime.datetime | None:
    """When either its writer or its provider spoke of it last."""
    written, reported = instance.spec_updated_at, instance.status_updated_at
    if written is None or reported is None:
        return written or reported
    return max(written, reported)


@kind(
    "service_type_instance",
    plural="service_type_instances",
    anchor="spec",
    indexes=("service_type", "status", "provider_id", "project_id"),
    low_cardinality=("status",),
    filter_indexes=("instance_name", "project_id", "provider_name", "service_type", "status"),
    name_field="instance_name",
    references=(Reference("provider_id", "provider", "provided_by"),),
    derived=(
        Derived("provider_id", provider_of, alone=True, reads=("provider_name", "service_type")),
        Derived("updated_at", last_update, alone=True, reads=("spec_updated_at", "status_updated_at")),
        Derived(
            "provider_state",
            state_of_provider,
            follows=(DependsOn("provider", "id", "provider_id"),),
            reads=("provider_name", "service_type"),
        ),
    ),
)
class ServiceTypeInstance(Entity, frozen=True, kw_only=True, gc=False):
    """An instance of a service type that a DCM provider runs. Id: given by who made it, else a uuid.

    Its spec and its provider are written through the REST API, its status by the provider's events.
    """

    project_id: Annotated[Text | None, In("spec"), Doc("Project (tenant) that owns it; null: none.")] = None
    service_type: Annotated[Text | None, In("spec"), Doc("vm, container, cluster, storage, network, database.")] = None
    instance_name: Annotated[Text | None, In("spec"), Doc("Name that the writer gave it.")] = None
    spec: Annotated[dict[str, Any] | None, In("spec"), Doc("What was asked for.")] = None
    created_at: Annotated[datetime.datetime | None, In("spec"), Doc("When it was made.")] = None
    spec_updated_at: Annotated[datetime.datetime | None, In("spec"), Doc("When its spec was last written.")] = None
    provider_name: Annotated[Text | None, In("provider"), Doc("The provider that runs it.")] = None
    provider_id: Annotated[ProviderId | None, Doc("Its provider in its service type.")] = None
    agent_name: Annotated[Text | None, In("provider"), Doc("The environment agent that it was given to.")] = None
    status: Annotated[Text | None, In("status"), Doc("Upper case; the known ones depend on the service type.")] = None
    status_message: Annotated[LongText | None, In("status"), Doc("What the provider says about the status.")] = None
    output_spec: Annotated[dict[str, Any] | None, In("output"), Doc("What the provider made of the spec.")] = None
    status_updated_at: Annotated[
        datetime.datetime | None, In("status"), Doc("When the provider reported the status.")
    ] = None
    updated_at: Annotated[datetime.datetime | None, Doc("The later of the two times.")] = None
    provider_state: Annotated[Text | None, Doc("available, degraded or unavailable; null: no agent complained.")] = None

# SPDX-License-Identifier: Apache-2.0
"""The dialect of DCM: CloudEvents become service type instances and providers.

``handler``       The status events of DCM's providers, turned into the status of service-type instances
``ordering``      What orders DCM's events: versions whose text order is the order of the events
``payloads``      What a DCM event says, as far as the model uses it, and where in the event it says it
``service_types`` The service types of a DCM control plane: which statuses each has
"""

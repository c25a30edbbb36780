# SPDX-License-Identifier: Apache-2.0
"""The dialect of DCM: CloudEvents become service type instances and providers.

``authorship``     who may speak of which instance and provider
``handler``        status events become the status of service-type instances and providers
``ordering``       versions whose text order is the order of the events
``payloads``       the fields of DCM's events, in every form that publishers use
``service_types``  the service types, their statuses and the aliases of these
"""

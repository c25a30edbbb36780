# SPDX-License-Identifier: Apache-2.0
"""The REST resources of DCM.

``provider_bindings``       ``/v1/provider_bindings/{id}``: a binding, and its reset
``service_type_instances``  The writable fields of ``/v1/service_type_instances``
"""

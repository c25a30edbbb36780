# SPDX-License-Identifier: Apache-2.0
"""The REST resources of subscriptions.

``bodies``           The documents of subscriptions and of their deliveries
``instance_status``  ``/v1/instance/{id}/status``: an instance and its resources, in ONAP's dialect
``requests``         Checks what a subscriber writes: the callback, the filters, the secret
``subscriptions``    Subscriptions to the status of instances, in ONAP's dialect, and the test message
"""

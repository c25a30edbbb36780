# SPDX-License-Identifier: Apache-2.0
"""The model held against a real Cinder: ``tox -e real-cinder``.

admin
    A client of Cinder's API.
cloud
    The cloud: its processes, databases and message bus.
hosted
    Programs that run in the cloud's interpreter.
settings
    Configuration files of the services.
"""

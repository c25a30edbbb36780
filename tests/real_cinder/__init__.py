# SPDX-License-Identifier: Apache-2.0
"""The model held against a real Cinder: ``tox -e real-cinder``.

admin
    A client of Cinder's API.
cloud
    The cloud: its processes, databases and message bus.
facts
    What only reconciliation can know.
hosted
    Programs that run in the cloud's interpreter.
modes
    Two installations that follow the cloud.
settings
    Configuration files of the services.
stage
    Operations on volumes, snapshots, types and backends.
story
    The steps.
truth
    What the API answers, in the words of the model.
"""

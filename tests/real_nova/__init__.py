# SPDX-License-Identifier: Apache-2.0
"""The model held against a real Nova: ``tox -e real-nova``.

admin
    A client of the cloud's APIs.
bringup
    Steps of every cloud.
cloud
    The cloud: its processes, databases and message bus.
defaults
    A model without instance.update, as Nova publishes by default.
facts
    What only reconciliation can know.
hosted
    Programs that run in the cloud's interpreter.
installation
    The virtual environment with OpenStack.
modes
    Three installations that follow the cloud.
processes
    Processes of the cloud.
recording
    Every notification that the cloud published.
seed
    Users, catalog, flavors and images.
settings
    Configuration files of the services.
stage
    Operations on servers, hosts and aggregates.
story
    The steps.
table
    The result: step x mode.
truth
    What the APIs answer, in the words of the model.
"""

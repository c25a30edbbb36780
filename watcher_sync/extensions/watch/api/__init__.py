# SPDX-License-Identifier: Apache-2.0
"""The REST resources of watch topics.

``bodies``     The documents of watch topics and of their events; decodes YAML
``events``     ``/events/management/{version}/watchtopics/{name}``: the past events of a topic
``resources``  ``/apis/v1/{plural}/{id}``: an entity as the resource that events name
``scan``       The scan of the journal for one page of the events of a topic
``topics``     ``/management/{version}/watchtopics``: watch topics
"""

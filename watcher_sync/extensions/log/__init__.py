# SPDX-License-Identifier: Apache-2.0
"""Outlets that publish the journal on logs.

``api``             The REST resources of outlets and of the schemas of messages
``assembly``        The outlets of ``watcher-sync-outlet`` that publish on a log
``base``            The contract of outlets
``change_log``      Turns the journal into the changes that outlets publish, once for all outlets of a process
``checks``          What the upgrade check examines of it
``cursors``         The rows of outlets: how far each has published, and the state of its publisher
``event_loop``      An event loop in a thread of its own, for drivers whose library needs one
``extension``       What the core asks of it
``fitting``         Encodes changes so that the log takes each of them, in portions of a bounded size
``formats``         The two formats of a published change
``kafka``           The driver of that name: topics of Kafka
``leadership``      Which process publishes an outlet
``metrics``         The Prometheus metrics of the process that publishes on logs
``nats_jetstream``  The driver of that name: streams of NATS JetStream
``options``         ``[outlets]`` and the options common to all outlets that publish on a log
``oslo_messaging``  The driver of that name: versioned notifications on the notification bus
``positions``       What a log has, as the headers of its last message say
``publisher``       Publishes the journal on the log of one outlet, in a thread of its own
``schemas``         The JSON Schema of a published message, for each kind and format
``selection``       What one outlet publishes of the journal
``worker``          The outlets of one process
"""

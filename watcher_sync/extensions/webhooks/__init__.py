# SPDX-License-Identifier: Apache-2.0
"""Subscriptions and their deliveries.

``answers``            the status of an answer, from the bytes of its connection
``api``                the REST resources of subscriptions
``assembly``           The webhooks of ``watcher-sync-outlet``
``command``            ``watcher-sync-manage subscription``
``contents``           the changes of one subscription that no delivery contains yet, and the delivery that is made of
                       them
``deliveries``         a delivery until it has ended, the settings of deliveries, and what a worker has to write and to
                       send
``extension``          What the core asks of it
``findings``           What the upgrade check examines of it
``guard``              sockets that connect to permitted addresses only, and the look-ups of names before them
``hosts``              which host may get its next request
``matcher``            finds the subscriptions that a journal row concerns
``metrics``            the Prometheus metrics of one worker
``onap``               the status of instances in the dialect of ONAP's k8splugin
``options``            ``[outlet_webhook]``: subscriptions and their delivery
``planner``            the subscriptions of one worker: rows of the journal reach them, and each is planned in its time
``replica``            the part of the model that the subscriptions of a session need, and its way along the journal
``requests``           the HTTP requests of a session, through the gate of their hosts
``resources``          what the sessions of a worker share
``rows``               the rows of subscriptions and deliveries, and the statements that the API and workers share
``secrets``            encrypts the signing secrets of subscriptions
``sender``             one request to one URL
``session``            the work from a load of the subscriptions to the loss of a shard
``shards``             divides the shards of an outlet among its live workers
``standard_webhooks``  secrets and signatures of webhooks
``subscription``       one subscription of a worker, as a state machine; it makes the head of each delivery
``subscriptions``      the rows of subscriptions, as the API writes and reads them
``webhook_messages``   the body of a message to a callback, in the format of its subscription
``worker``             delivers the webhooks of the shards that it owns
``worker_rows``        what a worker reads and writes
``writer``             writes what a planner has, and purges the delivery log
"""

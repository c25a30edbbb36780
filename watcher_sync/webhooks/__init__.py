# SPDX-License-Identifier: Apache-2.0
"""Signed requests to the callback URLs of subscriptions.

``api``                The REST resources of subscriptions
``attempts``           the result of one request
``audit``              records in the journal that a subscription ended
``availability``       logs when the database becomes unavailable, and when it recovers
``contents``           what one delivery contains
``epochs``             tells subscribers that the database went back in time
``guard``              sockets that connect to permitted addresses only
``hosts``              which host may get its next request
``lifecycle``          what a read row of a subscription changes: it is added, rewritten, resumed, replayed or removed
``live``               one subscription of a worker
``matcher``            finds the subscriptions that a journal row concerns
``merging``            merges rows of the journal into subscriptions
``metrics``            the Prometheus metrics of one worker
``names``              look-ups of names in threads of their own
``outbox``             what a planner has for its owner: rows to write, and deliveries to send
``parts``              what the sessions of a worker share
``planner``            decides what is delivered, and when
``purging``            purges the delivery log in portions
``refusals``           finds the subscriptions whose rows the database refuses
``replica``            the entities that the subscriptions of a session need
``requests``           the requests of a session, through the gate of their hosts
``results``            what the result of an attempt does to its delivery and its subscription
``retries``            when the next attempt is due
``roster``             the subscriptions of one worker, with their indexes
``rows``               What a worker of the webhook outlet reads and writes
``secrets``            Encrypts the signing secrets of subscriptions
``sender``             one request to one URL
``session``            the work from a load of the subscriptions to the loss of a shard
``settings``           what a planner is given: options, and the sources of time, chance and ids
``shards``             divides the shards of an outlet among its live workers
``subscription_rows``  The rows of subscriptions, and the statements that the API and workers share
``subscriptions``      The rows of subscriptions and of their progress, as the API writes and reads them
``tasks``              the tasks of a session
``worker``             delivers the webhooks of the shards that it owns
``writing``            writes what a planner has
"""

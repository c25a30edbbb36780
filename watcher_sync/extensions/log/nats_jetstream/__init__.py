# SPDX-License-Identifier: Apache-2.0
"""The outlet driver ``nats_jetstream``: a stream of all changes, and a stream of the current model.

``jetstream_log``  ``JetStreamLog``: both streams over one connection, from open to close
``messages``       subjects and headers, and which messages the server stores together
``model_stream``   ``ModelStream``: whether the model is a whole copy of the changes, and what leaves it
``outlet``         ``NatsJetStreamOutlet``: the connection and its thread
``publisher``      ``FencedPublisher``: many messages in flight, each bound to its place in the stream
``settings``       the options of an outlet, checked
``streams``        ``LogStreams``: the two streams, made or verified, and what they have
"""

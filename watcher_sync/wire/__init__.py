# SPDX-License-Identifier: Apache-2.0
"""Codecs of what other systems send and receive: JSON, envelopes, CloudEvents, callback URLs.

``callback_urls``     which URLs and addresses a callback may have
``cloud_events``      CloudEvents 1.0, in structured and in binary mode
``encodings``         the compression and the character set of a message's body
``envelopes``         one document of a transport or a recording becomes one event
``fields``            names, times and data in the fields of envelopes
``json``              strict JSON, decoded fast
``limits``            limits of lengths and numbers in the model
``log_streams``       what the two streams of a log on JetStream are to each other
``request_contexts``  the request context or the initiator of a notification
"""

# SPDX-License-Identifier: Apache-2.0
"""Codecs of what other systems send: JSON, envelopes, CloudEvents, Kubernetes objects.

``cloud_events`` CloudEvents 1.0, in structured and in binary mode
``envelopes``    One document, as a wire or a recording carries it, made into one event
``fields``       The fields of envelopes: what a name and a time are
``json``         JSON as its specification means it
``kubernetes``   The objects of Kubernetes, as far as they are used here
``limits``       How long and how large is what the model keeps; said once
"""

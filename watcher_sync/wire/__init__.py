# SPDX-License-Identifier: Apache-2.0
"""Codecs of what other systems send: JSON, envelopes, CloudEvents, Kubernetes objects.

``cloud_events``  CloudEvents 1.0, in structured and in binary mode
``envelopes``     one document of a transport or a recording becomes one event
``fields``        names, times and data in the fields of envelopes
``json``          strict JSON, decoded fast
``kubernetes``    partial structs of Kubernetes objects
``limits``        limits of lengths and numbers in the model
"""

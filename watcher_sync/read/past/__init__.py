# SPDX-License-Identifier: Apache-2.0
"""The model as it was.

``moments``        Moments of the past whose model the journal can still show
``past_models``    The model as it was at a seq: a copy of its tables in memory
``past_replicas``  A replica of the model at a seq of the past, which then moves along the journal
``undoing``        What entities were before the changes after a seq
"""

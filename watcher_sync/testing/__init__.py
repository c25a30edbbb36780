# SPDX-License-Identifier: Apache-2.0
"""What a plugin writer needs to test against: simulated systems, disorder, bad input, comparison with the truth.

``comparison`` The model against the truth: the same kinds, the same ids, the same values in every field
``dcm``        A simulated DCM: builders of status events, and providers that publish legal histories
``disorder``   What transports do to a history: deliver it in another order, twice, or not at all
``kubernetes`` A fake Kubernetes API server, for tests, benchmarks and the demo; kubectl can talk to it
``ledger``     The simulated cloud's own account of what the model has to hold after the events that it
``nova``       A simulated Nova: builders of notifications, and a cloud that publishes legal histories
``poison``     Bad input: everything that a bus may bring and that must not stop, blind or mislead the engine
"""

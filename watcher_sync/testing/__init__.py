# SPDX-License-Identifier: Apache-2.0
"""What a plugin writer needs for tests: simulated systems, disorder, bad input, and the comparison with the truth.

``comparison``      Compares the model with the truth: kinds, ids and the values of all fields
``dcm``             A simulated DCM: builders of status events, and providers that publish legal histories
``deadlines``       Deadlines that a slow or busy machine has more time for
``disorder``        Reorders, duplicates and drops the events of a history, as transports do
``http``            What the fake services share: a port that can be stopped, and injected faults
``kinds``           The kinds of this package alone, whatever plugins are installed
``kubernetes``      A fake Kubernetes API server that kubectl can talk to
``ledger``          The simulated cloud's own record of what the model must contain
``nova``            A simulated Nova: builders of notifications, and a cloud that publishes legal histories
``openstack``       A fake Keystone, Nova and Placement that openstacksdk can talk to
``playing``         Plays events to the handlers of a plugin, and returns what the model has then
``poison``          Bad input that must not stop or mislead the engine
``stable_imports``  Checks that a plugin imports only names of the stable interface
``watch``           A fake watch service: the gRPC stream and the REST catch-up of a topic
"""

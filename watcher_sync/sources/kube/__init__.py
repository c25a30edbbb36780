# SPDX-License-Identifier: Apache-2.0
"""Lists and watches of the Kubernetes API, kept up for ever: what the driver ``kubernetes`` is made of.

``resources`` says what is followed, ``connection`` asks the API server, ``listing`` and ``watching`` read its
answers, and ``reflector`` is the loop over them, one thread for each resource of each cluster.
"""

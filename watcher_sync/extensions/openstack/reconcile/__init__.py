# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Nova: hosts, aggregates and servers of one cloud.

``compare``     Compares the answers of Nova's API with the model
``comparison``  The state of the model that a comparison uses, and its result
``listing``     Lists servers, hosts, aggregates, flavors and migrations from Nova's API
``live``        Turns the answers of Nova's API into the facets of our entities. Pure functions
``payloads``    The answers of Nova's API, as far as the model uses them
``reconciler``  The reconciler ``nova``: complete runs, and runs of changes and doubtful servers
``selection``   What the options leave out of the comparison. Pure functions
``sight``       What the account does not see, although Nova answers
``writer``      Writes what a listing found, unless an event wrote it meanwhile, and restores servers
"""

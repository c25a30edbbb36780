# SPDX-License-Identifier: Apache-2.0
"""A storm of faults on a whole installation, and the verdict after it.

Two engines of one group, an API and an outlet run on a database of their own. Nova, DCM, Kubernetes and API clients
write at once, and a client reads ``/v1/events``. Faults come at random times of a seed. After the storm the tables
must be the truth, or a report must exist for the difference.

``database``   The private database servers, and what happens to them
``ingredients``  The faults of a storm, each with its name
``plan``       The settings of a storm, and the times of its faults
``processes``  The engines, the API and the outlet, which are started again when they are killed
``readers``    Follows the journal and ``/v1/events`` during the storm
``run``        One storm from its start to its table of figures
``verdict``    What must be true after a storm
``writers``    Nova, DCM, Kubernetes and the clients of the API, all at once
"""

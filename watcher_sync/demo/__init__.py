# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync demo``: the complete system against simulated clouds in one process.

``api``                Serves the API and its page on the loopback interface
``cluster_truth``      What the model must contain of a fake cluster, computed from the server's store
``command``            The command line of ``watcher-sync demo``
``dcm``                DCM in the demo: providers, transport and rows
``demonstration``      One run: starts everything, watches it, stops it, compares the tables with the truth
``existing_cloud``     The simulated cloud as it is before the demo listens, with its API
``in_process``         A source that receives events from code in the same process
``kubernetes``         Kubernetes in the demo: a cluster, its VNF instances, and life-cycle managers
``limits``             How long a run waits, and for what; and the end of it by its user
``live_cloud``         Publishes the simulated cloud's notifications on an in-memory bus
``live_cluster``       Runs a fake API server with network functions, and causes accidents in it
``live_managers``      Life-cycle managers that compete for the operation leases of VNF instances
``live_providers``     Posts the simulated DCM's rows and publishes its status events
``nats_server``        Runs a NATS server, and publishes to its stream
``network_functions``  The workloads of a small cluster, and their registrations as VNF instances
``outcome``            The figures of a run: those that the API does not serve, and what is printed at the end
``output``             Where the demo prints, whatever its terminal does
``receiver``           Receives webhooks, verifies them, and applies them to a view of its own
``run_folder``         The folder of one run, with its configuration file, log and database
``screen``             What the demo draws in addition to ``top``, or prints as a line
``webhooks``           Webhooks in the demo: an outlet, a receiver, and subscriptions
"""

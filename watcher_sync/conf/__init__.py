# SPDX-License-Identifier: Apache-2.0
"""The options, one module per group.

``api``               ``[api]``: the REST API, and the login with user and password
``cloud_account``     The account with which a reconciler asks a cloud: options of keystoneauth
``database``          ``[database]``: time limits, the lease of a process and the interval of reading the journal
``drivers``           What the classes of enabled drivers declare about their sections
``engine``            ``[engine]``: sources, batches, leadership and shutdown
``files``             Checks the files that options name
``findings``          What drivers and extensions need to declare what the upgrade check examines
``insecure_account``  Finds what an account of Keystone sends without TLS
``keystone``          ``[keystone_authtoken]``: keystonemiddleware and its auth plugin
``monitoring``        ``[monitoring]``: the monitoring HTTP server, and when a source is stale
``networks``          The type of options whose values are networks or addresses, and the addresses of this machine
``operations``        ``[operations]``: the leases of life-cycle operations and syncs
``opts``              Registers all options, and lists them for oslo-config-generator
``private``           The same files in a configuration of their own
``reconcile``         ``[reconcile]``: intervals, limits and policies of the comparison with the live systems
``retention``         ``[retention]``: how long history is stored
``strict``            Rejects sections and options that no module declares
``tracing``           ``[tracing]``: traces of batches and requests
``urls``              Checks URLs that have a user and a password
"""

# SPDX-License-Identifier: Apache-2.0
"""What a VNF instance should be, and what it is: pure functions over registrations, workloads and pods.

``evaluation`` What is observed of one VNF instance
``levels``     The levels of scaling aspects: a table made once, at registration, and looked up from then on
``matching``   Which pods are a VDU's: those whose controller is the registered workload
``reports``    What a sync of one VNF instance found: plain data, between who runs it and who shows it
``vnfcs``      vnfcResourceInfo (ETSI GS NFV-SOL 003, VnfcResourceInfo) whose ids stay while pods come and go
"""

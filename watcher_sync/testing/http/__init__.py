# SPDX-License-Identifier: Apache-2.0
"""What the fake services share: a port that can be stopped, its connections, and injected faults.

``faults``    The faults that each fake can inject, and their list
``handler``   One connection: requests in, answers and faults out
``listener``  A port that serves HTTP
"""

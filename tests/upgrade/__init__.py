# SPDX-License-Identifier: Apache-2.0
"""An installation of an earlier commit is upgraded to this tree under load, as the documentation says.

==============  ====================================================
``releases``    The two releases, built into wheels
``operating``   The installation, its services and its operator
``observers``   Who notices what happens meanwhile
==============  ====================================================
"""

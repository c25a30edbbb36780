# SPDX-License-Identifier: Apache-2.0
"""Start ``nova-compute`` with the virt driver of this folder. The arguments are those of ``nova-compute``.

Nova loads drivers from the package ``nova.virt`` only, so this script adds its folder to that package.
"""

from __future__ import annotations

import pathlib

# The first import of the program, because it prepares the threads.
from nova.cmd import compute  # isort: skip
from nova import virt

if __name__ == "__main__":
    virt.__path__.append(str(pathlib.Path(__file__).parent))
    compute.main()

# SPDX-License-Identifier: Apache-2.0
"""Installs distributions of ``contrib``, by name, into this environment: ``python -m tests.install_contrib NAME...``.

pip would build them in the source tree, where the rest of a build is an installed plugin for every test.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.source_copy import copy_source

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        contrib = copy_source(Path(folder, "source")) / "contrib"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, *(str(contrib / name) for name in sys.argv[1:])], check=True)

# SPDX-License-Identifier: Apache-2.0
"""Each package's docstring says in a line per module what the module does, and the list is complete.

A line begins with the name in double backticks, two or more spaces, and the description. The lines may be the rows of a
table, where one space is enough.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "watcher_sync"

_ROW = re.compile(r"``(?P<name>\w+)``(?P<gap> +)\S")
_BORDER = re.compile(r"=+(?: +=+)+$")


def members(folder: Path) -> set[str]:
    """The modules and sub-packages of a package, without those that Python runs by itself, such as ``__main__``."""
    modules = {path.stem for path in folder.glob("*.py")}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return {name for name in modules | packages if not name.startswith("__")}


def mapped(docstring: str) -> Counter[str]:
    """How often a docstring's rows name each module."""
    names: Counter[str] = Counter()
    in_table = False
    for line in docstring.splitlines():
        text = line.strip()
        if not text:
            in_table = False
        elif _BORDER.match(text):
            in_table = True
        elif (row := _ROW.match(text)) and (in_table or len(row["gap"]) > 1):
            names[row["name"]] += 1
    return names


def problems(folder: Path) -> list[str]:
    """What is wrong with the map of one package, each in a sentence."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    present, named = members(folder), mapped(docstring)
    return [
        *(f"missing: ``{name}``" for name in sorted(present - set(named))),
        *(f"not in the folder: ``{name}``" for name in sorted(set(named) - present)),
        *(f"named {count} times: ``{name}``" for name, count in sorted(named.items()) if count > 1),
    ]


PACKAGES = sorted(
    path.parent.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("__init__.py") if len(members(path.parent)) > 1
)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_docstring_of_a_package_names_each_of_its_modules_once(package: str) -> None:
    found = problems(ROOT / package)

    assert not found, f"the map in {package}/__init__.py:\n" + "\n".join(found)


def test_the_test_sees_what_is_missing_gone_and_repeated(tmp_path: Path) -> None:
    for name in ("here.py", "forgotten.py", "__main__.py", "inner/__init__.py", "data/file.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "__init__.py").write_text(
        '"""A package.\n\n``here``   once\n\n``here``   twice\n``gone``   no more\n``inner`` is no row\n"""\n'
    )

    assert problems(tmp_path) == [
        "missing: ``forgotten``",
        "missing: ``inner``",
        "not in the folder: ``gone``",
        "named 2 times: ``here``",
    ]


def test_a_table_and_rows_of_several_lines_are_maps(tmp_path: Path) -> None:
    for name in ("long_name.py", "short.py", "inner.py"):
        (tmp_path / name).touch()
    (tmp_path / "__init__.py").write_text(
        '"""A package.\n\n===  ==\n``long_name`` in a table\n``short``  too\n===  ==\n\n'
        '``inner``   a row\n    of two lines\n"""\n'
    )

    assert problems(tmp_path) == []

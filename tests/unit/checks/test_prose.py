# SPDX-License-Identifier: Apache-2.0
"""The prose rules find what they forbid in each kind of file, and nothing else."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.checks.prose import Violation, check_document, check_python, files, main

# Each @ in the samples below becomes a banned word, so that the samples pass the check themselves.
BANNED = "anew"
LONG = " ".join(["word"] * 26)


def python(source: str) -> list[Violation]:
    return check_python("a.py", textwrap.dedent(source).lstrip("\n").replace("@", BANNED))


def document(path: str, source: str) -> list[Violation]:
    return check_document(path, textwrap.dedent(source).lstrip("\n").replace("@", BANNED))


def places(violations: list[Violation]) -> list[tuple[int, str]]:
    return [(violation.line, violation.rule) for violation in violations]


@pytest.mark.parametrize(
    "source",
    [
        '"""@."""',
        "# @",
        "x = 1  # @",
        'x = 1\n"""It begins @."""',
        'LOG.info("@")',
        'LOG.info(f"@ {x}")',
        'raise ValueError("@")',
        'raise ValueError(f"{x} @" if x else "")',
        'Opt("name", help="@")',
        'print("it will begin @")',
        'print("it will " "begin @")',
        'f({"a": ["it will begin @"]})',
        'x = f"{x} will begin @ {f(y)} today"',
        'LOG.info("\\t@")',
        'LOG.info("x" "é", f"é {x}", "@")',
    ],
)
def test_a_banned_word_is_found_in_comments_docstrings_and_messages(source: str) -> None:
    assert places(python(source)) == [(source.count("\n") + 1, "word")]


@pytest.mark.parametrize(
    "source",
    [
        "told = kept(told)",
        'x = "@"',
        'LOG.info("%(told)s", {"told": told})',
        'LOG.info(f"{told} by {kept}")',
        'LOG.info("a\\told")',
        '"""The argument ``kept``, see :func:`told`."""',
        '"""An example::\n\n    told(kept)\n"""',
    ],
)
def test_identifiers_and_code_are_no_prose(source: str) -> None:
    assert python(source) == []


def test_a_phrase_is_found_over_the_end_of_a_line_and_reported_where_it_begins() -> None:
    source = '''
    """It goes on FIRST
    SECOND.
    """
    # It goes on FIRST
    # SECOND.
    LOG.info("it goes on FIRST "
             "SECOND")
    '''
    source = source.replace("FIRST", "for").replace("SECOND", "ever")
    assert places(python(source)) == [(1, "word"), (4, "word"), (6, "word")]


def test_a_module_docstring_has_at_most_120_words_beside_tables_and_code() -> None:
    fine = "\n".join(["Word " * 19 + "word."] * 6)
    table = "``name``  " + "word " * 100

    assert python(f'"""{fine}\n\n{table}\n\n::\n\n    {table}\n"""') == []
    assert places(python(f'"""{fine}\n\nMore.\n"""')) == [(1, "module")]
    assert places(python(f'def f():\n    """{fine}\n\nMore.\n    """')) == []


def test_a_sentence_of_a_docstring_has_at_most_25_words() -> None:
    assert python(f'"""{LONG[5:]}."""') == []
    assert places(python(f'"""{LONG}."""')) == [(1, "sentence")]
    assert places(python(f'class A:\n    """One.\n\n    {LONG}."""')) == [(4, "sentence")]
    assert places(python(f'class A:\n    async def f():\n        """{LONG}."""')) == [(3, "sentence")]
    assert python(f"# {LONG}.") == []


def test_the_name_of_a_test_has_at_most_90_characters_and_no_banned_word() -> None:
    source = f"""
    def test_{85 * "x"}(): ...
    def test_{86 * "x"}(): ...

    class TestIt:
        async def test_it_begins_@(self): ...

    def it_begins_@(): ...
    """
    assert places(python(source)) == [(2, "name"), (5, "name")]


@pytest.mark.parametrize(
    "source",
    [
        'LOG.info("@")  # prose: quotes what the server sends',
        '# prose: quotes what the server sends\nLOG.info("@")',
        "x = 1  # @  # prose: quotes what the server sends",
        '"""One.\n\n@.\n"""  # prose: quotes what the server sends',
        f'"""One.\n\n{LONG}.\n"""  # prose: quotes what the server sends',
    ],
)
def test_an_exception_with_its_reason_passes(source: str) -> None:
    assert python(source) == []


def test_an_exception_without_a_reason_is_an_error_and_excuses_nothing() -> None:
    assert places(python('LOG.info("@")  # prose:')) == [(1, "word"), (1, "exception")]
    assert places(document("a.rst", ".. prose:\n\n@\n")) == [(1, "exception"), (3, "word")]


def test_an_exception_that_excuses_nothing_is_an_error() -> None:
    assert places(python('LOG.info("again")  # prose: a reason')) == [(1, "exception")]
    assert places(python('# prose: a reason\n\nLOG.info("@")')) == [(1, "exception"), (3, "word")]


def test_documents_are_read_without_their_code() -> None:
    source = """
        @
        ====

        It goes on
        @, and ``told`` is code::

            @

        .. autoclass:: watcher_sync.@

        .. prose: quotes the standard

        This is @
        and @.

        This is @.
    """

    assert places(document("doc/a.rst", source)) == [(1, "word"), (5, "word"), (16, "word")]


def test_release_notes_and_configuration_files_are_read() -> None:
    note = "---\nfixes:\n  - |\n    Made @.\n\n    .. prose: a quotation\n\n    Made @.\n"

    assert places(document("releasenotes/notes/a.yaml", note)) == [(4, "word")]
    assert places(document("etc/a.conf", "# @\nx = 1\ny = 2  # @  # prose: a name\n")) == [(1, "word")]


def test_the_files_of_the_whole_repository_are_checked_except_generated_ones(tmp_path: Path) -> None:
    for name in ("README.rst", "Makefile", "doc/a.rst", "doc/build/b.rst", "etc/c.sample", "tests/d.py", "other/e.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.touch()

    assert [path.relative_to(tmp_path).as_posix() for path in files(tmp_path)] == [
        "Makefile",
        "README.rst",
        "doc/a.rst",
        "tests/d.py",
    ]


def test_this_check_and_its_tests_pass_it_and_the_exit_status_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    checked = [*Path(__file__).parents[2].glob("checks/*.py"), *Path(__file__).parent.glob("*.py")]

    assert main([str(path) for path in checked]) == 0
    assert capsys.readouterr().out == ""


def test_each_violation_is_a_line_and_the_exit_status_is_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.checks.prose.ROOT", tmp_path)
    (tmp_path / "README.rst").write_text(f"Fine.\n\n{BANNED} and {BANNED}.\n")

    assert main([str(tmp_path / "README.rst")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "README.rst:3: 'anew': write again",
        "README.rst:3: 'anew': write again",
    ]

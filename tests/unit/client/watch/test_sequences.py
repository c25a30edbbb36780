# SPDX-License-Identifier: Apache-2.0
"""Watermarks survive a crash, and a file that cannot be read counts as lost."""

from __future__ import annotations

import os
import threading

import pytest

from watcher_sync.client.watch.sequences import LOST, FileSequence, MemorySequence


def test_a_file_that_does_not_exist_means_no_watermark(tmp_path):
    assert FileSequence(tmp_path / "seq.json").get("/a") == 0


def test_another_instance_reads_the_watermarks_of_all_topics(tmp_path):
    path = tmp_path / "seq.json"
    sequence = FileSequence(path)
    sequence.set("/a", 5)
    sequence.set("/b", 7)
    sequence.set("/a", 6)

    again = FileSequence(path)
    assert (again.get("/a"), again.get("/b"), again.get("/c")) == (6, 7, 0)


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"/a": "x"}'])
def test_a_damaged_file_means_that_the_watermark_is_lost(tmp_path, content):
    path = tmp_path / "seq.json"
    path.write_text(content)

    assert FileSequence(path).get("/a") == LOST


def test_a_file_that_may_not_be_read_means_that_the_watermark_is_lost(tmp_path):
    (tmp_path / "folder").mkdir()

    assert FileSequence(tmp_path / "folder").get("/a") == LOST


def test_a_watermark_that_is_set_again_replaces_a_damaged_file(tmp_path):
    path = tmp_path / "seq.json"
    path.write_text("{")
    FileSequence(path).set("/a", 3)

    assert FileSequence(path).get("/a") == 3


def test_a_damaged_file_is_lost_for_a_topic_until_its_own_watermark_is_set(tmp_path):
    path = tmp_path / "seq.json"
    path.write_text("{")
    sequence = FileSequence(path)
    sequence.set("/a", 3)

    for each in (sequence, FileSequence(path)):
        assert (each.get("/a"), each.get("/b")) == (3, LOST)
    FileSequence(path).set("/b", 0)
    again = FileSequence(path)
    assert (again.get("/a"), again.get("/b"), again.get("/c")) == (3, 0, LOST)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "seq.json"
    sequence = FileSequence(path)
    sequence.set("/a", 3)

    def refuse(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="no space"):
        sequence.set("/a", 4)

    assert os.listdir(tmp_path) == ["seq.json"]
    assert FileSequence(path).get("/a") == 3
    assert sequence.get("/a") == 3


def test_the_content_is_synchronised_before_the_rename(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b))[1])
    FileSequence(tmp_path / "seq.json").set("/a", 3)

    assert calls == ["fsync", "replace", "fsync"]


def test_threads_may_set_different_topics(tmp_path):
    sequence = FileSequence(tmp_path / "seq.json")

    def write(topic):
        for number in range(1, 20):
            sequence.set(topic, number)

    threads = [threading.Thread(target=write, args=(f"/{name}",)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    again = FileSequence(tmp_path / "seq.json")
    assert [again.get(f"/{name}") for name in "abcd"] == [19] * 4


def test_memory_begins_with_what_it_is_given():
    sequence = MemorySequence({"/a": 4})
    sequence.set("/b", 2)

    assert (sequence.get("/a"), sequence.get("/b"), sequence.get("/c")) == (4, 2, 0)

"""Cold is proven: the proof sees a page that is there, and a dirty one."""

import os
import subprocess
from pathlib import Path

from innolab.hosts import pagecache


def test_pages_are_counted_evicted_and_gone(folder: Path) -> None:
    file = folder / "data"
    file.write_bytes(os.urandom(40 * 4096 + 1))
    assert pagecache.resident_pages([file]) == 41
    pagecache.evict([file])
    assert pagecache.resident_pages([file]) == 0
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        opened.read(1)
    assert pagecache.resident_pages([file]) >= 1


def test_the_count_is_that_of_fincore(folder: Path) -> None:
    file = folder / "data"
    file.write_bytes(os.urandom(300 * 4096))
    done = subprocess.run(
        ["fincore", "--noheadings", "--output", "PAGES", str(file)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert pagecache.resident_pages([file]) == int(done.stdout)


def test_an_empty_file_has_no_pages(folder: Path) -> None:
    (folder / "empty").touch()
    assert pagecache.resident_pages(pagecache.files_under(folder)) == 0

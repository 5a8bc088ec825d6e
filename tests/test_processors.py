"""Every reference report verifies on an older processor, by other libraries, and elsewhere."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, ROOT

from innolab.report import folders

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

REFERENCES = sorted(p.parent for p in (ROOT / "reports").glob("*/*/" + folders.MANIFEST_FILE))
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
# A processor of 2008, as far as numpy and OpenBLAS can be made to believe in it.
_OLD = {
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX2 FMA3",
    "OPENBLAS_CORETYPE": "Nehalem",
    **dict.fromkeys(_THREADS, "1"),
}
_ELSEWHERE = {"LC_ALL": "C", "TZ": "Pacific/Auckland"}


@pytest.fixture(scope="session")
def other_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with other patch releases of the libraries that numbers and pictures come from."""
    place = tmp_path_factory.mktemp("other-releases")
    lock = ROOT / "tests" / "other-releases.lock"
    subprocess.run(
        [BIN / "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
         "--python", BIN / "python", "--target", place, "-r", lock],
        check=True,
    )  # fmt: skip
    return place


def _verify(report: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "innolab", "verify", report],
        env={**os.environ, **env}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda p: p.parent.name)
def test_a_reference_verifies_on_an_old_processor_in_another_place(
    reference: Path, folder: Path
) -> None:
    copy = folder / "under-another-name"
    shutil.copytree(reference, copy)
    done = _verify(copy, {**_OLD, **_ELSEWHERE})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checked by the innolab that rendered it" not in done.stdout


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda p: p.parent.name)
def test_a_reference_verifies_by_other_patch_releases(
    reference: Path, other_releases: Path
) -> None:
    env = {"PYTHONPATH": str(other_releases), **dict.fromkeys(_THREADS, "2")}
    which = "import numpy, matplotlib, scipy; print(numpy.__version__, matplotlib.__version__)"
    said = subprocess.run(
        [BIN / "python", "-c", which], env={**os.environ, **env}, capture_output=True, text=True
    )
    assert "2.4.5 3.11.1" in said.stdout
    done = _verify(reference, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checked by the innolab that rendered it" not in done.stdout

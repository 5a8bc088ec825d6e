"""Run the benchmarks and print their ratios: `make bench`."""

import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import cloning, inserting, loading, sysbench, timing
from innolab.analysis import stats
from innolab.base.errors import InnolabError
from innolab.hosts import machine

RESULTS = Path(__file__).parent / "results"
Pairs = tuple[list[float], list[float]]


def main() -> None:
    """Run all, alone on this host, and keep the raw values."""
    kept = {}
    with (
        machine.measuring_alone(),
        tempfile.TemporaryDirectory(dir=machine.cache_folder()) as place,
    ):
        Path(place).chmod(0o755)
        for name, benchmark in BENCHMARKS.items():
            ours, theirs = benchmark(Path(place))
            ratio = stats.paired_ratio(ours, theirs)
            print(
                f"{name:58} {ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f}), "
                f"n = {ratio.n}",
                flush=True,
            )
            kept[name] = {"ours": ours, "theirs": theirs}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"Raw values: {path}")


BENCHMARKS: dict[str, Callable[[Path], Pairs]] = {
    "rows/s: our loader / S3's stored procedure": loading.against_the_procedure,
    "rows/s: our loader / LOAD DATA": loading.against_load_data,
    "bytes/s: our clone / fio sequential write": cloning.against_fio,
    "seconds: scan timed by us / by the mariadb client": timing.against_the_client,
    "tps: sysbench through innolab / by hand": sysbench.against_the_hand,
    "tps: with our collectors / without": sysbench.with_collectors,
    "rows/s: our insert load / empty server calls": inserting.against_empty_calls,
    "rows/s: our insert load / a connector loop": inserting.against_the_connector,
}


if __name__ == "__main__":
    try:
        main()
    except InnolabError as error:
        raise SystemExit(str(error)) from None

"""Set two reports of one study side by side: ratios of what was measured, changed verdicts."""

import json
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.analysis import stats
from innolab.base.errors import InputError
from innolab.record.plan import Plan
from innolab.record.runs import RunSet
from innolab.report import manifest, render
from innolab.studies.study import Study


def compare(
    first: Path, second: Path
) -> tuple[list[str], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what else differs, a row for each arm and metric, and one for each changed verdict.

    A ratio is the second report's over the first's, with an interval for unpaired samples.

    Raises
    ------
    InputError
        Where the two are of different studies or measured different things.
    """
    plans = [Plan.read(folder) for folder in (first, second)]
    if plans[0].study != plans[1].study:
        raise InputError(
            f"{first.name} is of {plans[0].study} and {second.name} of {plans[1].study}. Only "
            "reports of one study can be compared."
        )
    if plans[0].spec_sha256 != plans[1].spec_sha256:
        raise InputError(
            f"{first.name} and {second.name} measured different things (their spec_sha256 differ: "
            "another size, query or revision), so a ratio of the two would mean nothing."
        )
    study = studies.find(plans[0].study)
    sets = [study.read(folder).valid for folder in (first, second)]
    return _other_differences(first, second), _ratios(study, *sets), _changed(first, second)


def _other_differences(first: Path, second: Path) -> list[str]:
    """Return in words how hosts and builds differ: a ratio then depends on them too."""
    old, new = manifest.read(first), manifest.read(second)
    hosts = [{json.dumps(host, sort_keys=True) for host in body["hosts"]} for body in (old, new)]
    said = [] if hosts[0] == hosts[1] else [_host_difference(old["hosts"][0], new["hosts"][0])]
    for name in sorted(old["builds"].keys() & new["builds"].keys()):
        digests = [body["builds"][name]["sha256"] for body in (old, new)]
        if digests[0] != digests[1]:
            said.append(f"{name} is another binary in each")
    return said


def _host_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return f"the hosts differ in {', '.join(names) or 'number'}"


def _ratios(study: Study, first: RunSet, second: RunSet) -> list[dict[str, Any]]:
    rows = []
    for metric, within in study.compared.items():
        old, new = (_by_arm(runs, metric, set(within)) for runs in (first, second))
        for levels in [arm for arm in old if arm in new]:
            if min(*old[levels], *new[levels]) > 0:
                ratio = stats.independent_ratio(new[levels], old[levels])
                arm = ", ".join(str(level) for _, level in levels)
                rows.append({"arm": arm, "metric": metric, "ratio": ratio})
    return rows


def _by_arm(runs: RunSet, metric: str, within: set[str]) -> dict[Any, list[float]]:
    """Return a metric's values by the levels of factors and within-factors, sorted by these."""
    found: dict[Any, list[float]] = {}
    for run in (run for run in runs.runs if not run.twin):
        for row in run.observations:
            if metric in row and row.keys() & runs.within == within:
                levels = {**run.factors, **{name: row[name] for name in sorted(within)}}
                found.setdefault(tuple(levels.items()), []).append(float(row[metric]))
    return dict(sorted(found.items(), key=lambda item: str(item[0])))


def _changed(first: Path, second: Path) -> list[dict[str, Any]]:
    old, new = (
        {(v["claim"], v["server"]): v["verdict"] for v in render.read_verdicts(report)}
        for report in (first, second)
    )
    return [
        {"claim": key[0], "server": key[1], "first": old.get(key, "none"), "second": new[key]}
        for key in sorted(new)
        if old.get(key) != new[key]
    ]

"""Set two reports of one study side by side: ratios of what was measured, changed verdicts."""

import json
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.analysis import stats
from innolab.base.errors import InputError
from innolab.record.plan import Plan
from innolab.record.runs import RunSet
from innolab.record.study import Study
from innolab.report import manifest, render


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
    sets = [RunSet.read(study, folder).valid for folder in (first, second)]
    return _other_differences(first, second), _ratios(study, *sets), _changed(first, second)


def _other_differences(first: Path, second: Path) -> list[str]:
    """Return in words how hosts and builds differ: a ratio then tells of them too."""
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
    for server in [s for s in first.levels("server") if s in second.levels("server")]:
        for case in sorted(first.levels("case")):
            for metric in study.metrics:
                old, new = (
                    list(runs.values(metric, server=server, case=case).values())
                    for runs in (first, second)
                )
                if old and new and min(*old, *new) > 0:
                    ratio = stats.independent_ratio(new, old)
                    rows.append({"server": server, "case": case, "metric": metric, "ratio": ratio})
    return rows


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

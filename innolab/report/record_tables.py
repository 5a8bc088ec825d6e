"""Tables of what was recorded with the runs: host, servers, devices, checks, provenance."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from innolab.base import language
from innolab.base.language import text
from innolab.base.units import bytes_text, number, seconds_text
from innolab.record.run import Result, Run
from innolab.record.runs import RunSet
from innolab.report.display import Section, Sections, Table, Tables
from innolab.storage.profiles import Calibration, Profile

if TYPE_CHECKING:
    import pandas as pd


def apparatus(
    runs: RunSet,
    arms: Table,
    host: Table | Tables,
    servers: Table,
    devices: Table,
    fidelity: Table,
    provenance: Table,
) -> Sections:
    """Return the tables of what runs were made on, each below its heading."""
    measured_on = text("What the runs were measured on, as recorded with them.")
    return Sections(
        Section(text("Arms"), text("The arms, and how many of their runs are valid."), arms),
        Section(text("Host"), f"{measured_on} {conduct(runs)}", host),
        Section(text("Servers"), text("The servers, and the table that each holds."), servers),
        Section(
            text("Devices"),
            text(
                "The devices, in pages of 16 KiB a second: what fio got from each, of what its "
                "limits or its model give."
            ),
            devices,
        ),
        Section(
            text("Fidelity"),
            text(
                "Of a device with service times, each load of fio next to the same one "
                "simulated: operations a second and the latency that half, and 99 of 100, do "
                "not exceed."
            ),
            fidelity,
        ),
        Section(text("Provenance"), text("Where the runs come from."), provenance),
    )


def host(facts: Mapping[str, Any]) -> Table:
    """Return the host's facts as name and value; unknown ones say so."""
    return Table([{"fact": _name(k), "value": _fact(k, v)} for k, v in _flat(facts).items()])


def hosts(runs: Sequence[Run]) -> Table:
    """Return the facts of a fleet's hosts: a row a fact that all share, else one for each value.

    Hosts have letters, in the order in which they first handed a block over.
    """
    facts: dict[str, dict[str, Any]] = {}
    blocks = {}
    for member, letter in letters(runs).items():
        own = [run for run in runs if run.member == member]
        facts[letter] = _flat(own[0].conditions["host"])
        blocks[letter] = ", ".join(map(str, sorted({run.block + 1 for run in own})))
    return _of_each({"blocks": blocks}, facts)


def nodes(runs: Sequence[Run]) -> Table:
    """Return the facts of the hosts that servers were spread over, with the servers of each.

    Hosts have letters, in the order of their names in the inventory.
    """
    facts = {_letter(place): _flat(of) for place, of in enumerate(runs[0].conditions["nodes"])}
    servers: dict[str, set[str]] = {letter: set() for letter in facts}
    for run in runs:
        for name, place in run.conditions.get("on_host", {}).items():
            servers[_letter(place - 1)].add(name)
    return _of_each({"servers": {who: ", ".join(sorted(of)) for who, of in servers.items()}}, facts)


def _of_each(first: Mapping[str, Mapping[str, str]], facts: Mapping[str, dict[str, Any]]) -> Table:
    """Return values and facts of hosts by letter: a row for each value that is not the same."""
    names = dict.fromkeys(name for of in facts.values() for name in of)
    said = {_name(name): {who: _fact(name, of.get(name)) for who, of in facts.items()}
            for name in names}  # fmt: skip
    return Table(
        [row for name, values in {**first, **said}.items() for row in _by_value(name, values)]
    )


def _by_value(name: str, values: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield a row for each value of a fact, with the hosts that have it where it is not one."""
    who: dict[str, list[str]] = {}
    for host, value in values.items():
        who.setdefault(value, []).append(host)
    for value, those in who.items():
        of = "" if len(who) == 1 else f" ({text('hosts {names}', names=', '.join(those))})"
        yield {"fact": name, "value": f"{value}{of}"}


def letters(runs: Sequence[Run]) -> dict[str, str]:
    """Return the letter of each host of a fleet, by its digest."""
    members = dict.fromkeys(run.member for run in runs)
    return {member: _letter(place) for place, member in enumerate(members)}


def _letter(place: int) -> str:
    """Return the name of a place among hosts.

    >>> _letter(0), _letter(25), _letter(26)
    ('A', 'Z', 'A2')
    """
    turn, letter = divmod(place, 26)
    return chr(ord("A") + letter) + (str(turn + 1) if turn else "")


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    flat = {k: v for k, v in facts.items() if k != "disk"}
    return flat | {f"disk {k}": v for k, v in facts["disk"].items()}


def _name(fact: str) -> str:
    return fact.replace("_", " ")


def _fact(name: str, value: Any) -> str:
    if value is None:
        return text("unknown")
    return bytes_text(value) if name.endswith("_bytes") else str(value)


def arms(counted: "pd.DataFrame") -> Table:
    """Return the arms with their counts of runs, a row for those that differ in one factor alone.

    Parameters
    ----------
    counted : a row an arm, its counts in the last two columns; see `Book.arms`
    """
    *factors, valid, not_valid = counted.columns
    joined = max(reversed(factors), key=lambda name: counted[name].nunique())
    rest = [name for name in [*factors, valid, not_valid] if name != joined]
    rows = counted.groupby(rest, sort=False, dropna=False)[joined].agg(_levels).reset_index()
    return Table(rows[counted.columns])


def _levels(levels: "pd.Series[Any]") -> str:
    return ", ".join(number(one) if isinstance(one, float) else str(one) for one in levels)


def conduct(runs: RunSet) -> str:
    """Return what the host did during the runs that a reader must know, as sentences."""
    complete = [run.conditions for run in runs.runs if run.status == "complete"]
    usage = [one["usage"] for one in complete if "usage" in one]
    hosts = [one["host"] for one in complete]
    sentences = [
        text(
            "At worst {stolen:.1%} of the CPU time was stolen by a hypervisor and {others:.1%} was "
            "used by other processes.",
            stolen=max(one["steal_share"] for one in usage),
            others=max(one["others_share"] for one in usage),
        )
        for _ in usage[:1]
    ]
    if any(one.get("virtual") for one in hosts):
        sentences.append(
            text(
                "The host is virtual: a layer below may hold the data in its own cache, and cold "
                "means cold for this kernel."
            )
        )
    if any(one.get("free_page_reporting") for one in hosts):
        sentences.append(
            text(
                "The guest returns free memory to the hypervisor, so touching it again costs a "
                "fault."
            )
        )
    return " ".join(sentences)


def servers(runs: RunSet, unavailable: Mapping[str, str]) -> Table:
    """Return the servers that ran, and those that are not available and why."""
    seen = {run.conditions["build"]["id"]: run.conditions for run in runs.runs if run.checks}
    rows = [
        {
            "build": name,
            "version": of["build"]["version"],
            "from": of["build"]["origin"],
            "mysqld sha256": of["build"]["sha256"][:16],
            "debug build": "YES" if of["build"]["debug"] else "no",
            "rows": f"{of['dataset']['rows']:,}",
            "data": bytes_text(of["dataset"]["data_bytes"]),
        }
        for name, of in sorted(seen.items())
    ]
    return Table(rows + [{"build": name, "version": why} for name, why in unavailable.items()])


def devices(runs: RunSet, known: Mapping[str, Profile], missing: Mapping[str, str]) -> Table:
    """Return what each device should give and what fio got from it, pages of 16 KiB a second.

    A resumed session calibrates again, so a device may have several rows.

    Parameters
    ----------
    known : the emulated devices by name
    missing : why devices that were asked for did not run
    """
    seen = {
        json.dumps([facts["name"], facts["calibration"]]): facts
        for run in runs.runs
        if (facts := run.conditions.get("device")) and facts["calibration"]
    }
    order = [*known]
    ordered = sorted(
        seen.values(), key=lambda f: order.index(f["name"]) if f["name"] in order else len(order)
    )
    rows = [_device(facts, known.get(facts["name"])) for facts in ordered]
    return Table(
        [
            *rows,
            *(
                {"device": name, "kind": text("not run: {why}", why=language.sentence(why))}
                for name, why in missing.items()
            ),
        ]
    )


def _device(facts: Mapping[str, Any], profile: Profile | None) -> dict[str, str]:
    found = Calibration(**facts["calibration"])
    rows = [row for row in facts.get("fidelity", []) if row["judged"] and "speedup" not in row]
    timed = {f"{row['load']}_per_s": row for row in rows}
    wanted = {name: row["modelled_per_s"] for name, row in timed.items()}
    if profile is not None and profile.times is None:
        wanted = profile.expected()
    titles = ("reads", "writes", "7 reads to 3 writes", "synced writes")
    return {
        "device": facts["name"],
        "kind": _kind(profile, facts),
        **{
            title: _of(f"{value:,.0f}", f"{wanted[name]:,.0f}")
            if name in wanted
            else f"{value:,.0f}"
            for title, (name, value) in zip(titles, found._asdict().items(), strict=True)
        },
        "source": profile.source if profile else "this host",
    }


def _of(found: str, wanted: str) -> str:
    return text("{found} of {wanted}", found=found, wanted=wanted)


def fidelity(runs: RunSet) -> Table:
    """Return what fio got from devices of service times beside what their models give."""
    devices = [run.conditions["device"] for run in runs.runs if "device" in run.conditions]
    of = [device for device in devices if "fidelity" in device]
    seen = {json.dumps([device["name"], device["fidelity"]]): device for device in of}
    return Table(
        [
            {"device": device["name"], **_beside_its_model(row)}
            for device in seen.values()
            for row in device["fidelity"]
        ]
    )


def _beside_its_model(row: Mapping[str, Any]) -> dict[str, str]:
    def beside(what: str, scale: float, digits: int) -> str:
        found, modelled = (row[f"{who}_{what}"] * scale for who in ("found", "modelled"))
        return _of(f"{found:,.{digits}f}", f"{modelled:,.{digits}f}")

    return {
        "load": row["load"].replace("_", " ") + _faster(row),
        "per second": beside("per_s", 1, 0),
        "median, ms": beside("p50_s", 1e3, 2),
        "99 of 100, ms": beside("p99_s", 1e3, 2),
        "judged": "yes" if row["judged"] else "no",
    }


def _faster(row: Mapping[str, Any]) -> str:
    return text(", {k:g} times faster", k=row["speedup"]) if "speedup" in row else ""


def _kind(profile: Profile | None, facts: Mapping[str, Any]) -> str:
    if profile is None:
        return text("as it is")
    backing = language.sentence(facts["emulated"]["backing"])
    if profile.times is None:
        return text("emulated, on {backing}", backing=backing)
    return text("emulated by service times, on {backing}", backing=backing)


def checks(runs: RunSet, names: Sequence[str], differing: Sequence[str]) -> Table:
    """Return each validity check with its results counted, and its worst words."""
    return Table([*_checks(runs, names), _alike(differing)])


def _checks(runs: RunSet, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    order: dict[Result, int] = {"ok": 0, "warn": 1, "invalid": 2}
    for name in names:
        results = [c for run in runs.runs for c in run.checks if c.check == name]
        if results:
            worst = max(results, key=lambda c: order[c.result])
            counts = Counter(c.result for c in results)
            yield {"check": name, **{r: counts[r] for r in order}, "worst says": worst.says}


def _alike(differing: Sequence[str]) -> dict[str, Any]:
    says = text("arms differ in factors only")
    if differing:
        says = text("also differ: {names}", names=", ".join(differing))
    counts = {"ok": int(not differing), "warn": 0, "invalid": int(bool(differing))}
    return {"check": "arms alike", **counts, "worst says": says}


def provenance(runs: RunSet, spec_sha256: str, registered: str) -> Table:
    """Return what a reviewer needs to trace the runs: innolab's commit, times, digests."""
    commits = Counter(
        _commit((run.conditions["innolab"]["commit"] or text("unknown"))[:12], run)
        for run in runs.runs
    )
    total: Counter[str] = Counter()
    for run in runs.runs:
        total.update(run.conditions.get("time_s", {}))
    rows = {
        "runs": f"{len(runs.runs)}",
        "first started": min((run.started_at for run in runs.runs), default=""),
        "last ended": max((run.ended_at for run in runs.runs), default=""),
        "innolab commit": ", ".join(
            text("{commit} ({n} runs)", commit=commit, n=n) for commit, n in commits.items()
        ),
        "spec sha256": spec_sha256,
        "registered": language.sentence(registered),
        "time in trials": ", ".join(f"{k} {seconds_text(v)}" for k, v in sorted(total.items())),
    }
    return Table([{"fact": k, "value": v} for k, v in rows.items()])


def _commit(name: str, run: Run) -> str:
    if run.conditions["innolab"]["dirty"]:
        return text("{commit} with local changes", commit=name)
    return name

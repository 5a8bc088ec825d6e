"""Controls: what a report's own probes, twins and order say of the machine that measured it.

Pure functions of recorded runs. Each knows its answer beforehand: a probe is as the last one was,
an arm is as fast as itself, the order of the arms changes from block to block. Where the answer is
another, the verdicts concerned are withheld: something else than the factors made a difference.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import fmean, median
from typing import NamedTuple

from innolab.analysis import drift, stats
from innolab.analysis.verdicts import FailedControl
from innolab.base import files
from innolab.base.language import Message, message
from innolab.record.run import Level, Run, arm_text
from innolab.record.runs import RunSet

# Around the median of a report's own probes, on the logarithm: three standard deviations, of which
# a sound machine leaves 0.3 % outside. The deviation is that of the middle half, so that a fifth of
# disturbed trials does not widen it.
_DEVIATIONS, _MAD_TO_DEVIATION = 3.0, 1.4826
# Never narrower than 15 %: two probes of an idle machine differ by a tenth at times, which is what
# a published "about" allows. Never wider than this, or a machine that always changes would have no
# range to leave. A disk behind a hypervisor's cache differs most.
_LEAST, _MOST = 1.15, {"disk_reads_per_s": 2.0}
_MOST_USUAL = 1.3
# Fewer probes have no middle half to speak of.
_LEAST_PROBES = 5
# Two may be a moment of chance; each has its note.
_LEAST_OUT = 3
# The chance at which disturbances fall on one of all arms so unevenly by the draw of their order.
_UNEVEN_CHANCE = 0.01
# Within fewer blocks a change may be one moment's.
_DRIFT_BLOCKS = 3
# Half of what a published "about" allows: a difference of arms that is due to the machine, and
# smaller, decides no such claim.
A_A_MARGIN = 0.05
# Fewer runs of an arm than two of three, and those that failed may be those that mattered: a server
# that stalls runs into its time limits.
LEAST_COMPLETE = Fraction(2, 3)
# The chance at which equal orders are no coincidence any more.
_ORDER_CHANCE = 0.01


class Found(NamedTuple):
    """What the controls of a report found.

    Attributes
    ----------
    failed : the controls that failed
    notes : what a reader of the report should know of them, one sentence each
    doubtful : the trials whose probes were out of range, by their numbers
    """

    failed: list[FailedControl]
    notes: list[Message]
    doubtful: frozenset[int] = frozenset()


def controls(
    runs: RunSet, metrics: Mapping[str, Sequence[str]], level: float = stats.LEVEL
) -> Found:
    """Return what all controls of a report found.

    Parameters
    ----------
    metrics : those that twins are compared by, with the within-factors of each
    """
    return _together([complete(runs), probe_faults(runs), a_a(runs, metrics, level), order(runs)])


def complete(runs: RunSet) -> Found:
    """Return the arms of which runs failed; of fewer complete ones than two thirds, no verdict."""
    arms: dict[str, list[Run]] = defaultdict(list)
    for run in runs.runs:
        arms[_arm(run)].append(run)
    failed, notes = [], []
    for of in arms.values():
        if not (lost := sum(run.status == "failed" for run in of)):
            continue
        server = str(of[0].factors["server"])
        says = message(
            "{lost} of {n} runs of {arm} on {server} failed",
            lost=lost,
            n=len(of),
            arm=arm_text(of[0]),
            server=server,
        )
        notes.append(message("{says}.", says=says))
        if len(of) - lost < LEAST_COMPLETE * len(of):
            says = message("{says}, and a verdict needs two thirds of them complete", says=says)
            at = {name: level for name, level in of[0].factors.items() if name != "server"}
            failed.append(FailedControl(says, server, at))
    return Found(failed, notes)


def probe_faults(runs: RunSet) -> Found:
    """Return the trials before which the machine was faster or slower than before the others.

    And whether that fell on some arms more than on others, or came from block to block. Each probe
    is compared with those of the same host, a disk's with those of the same device.
    """
    blocks = len({run.block for run in runs.runs})
    ordered = sorted(runs.runs, key=lambda run: run.trial)
    groups: dict[tuple[str, str, str], list[_Probed]] = defaultdict(list)
    for place, run in enumerate(ordered):
        for name, value in run.conditions.get("probe", {}).items():
            if value > 0:
                probed = _Probed(run, place * blocks / len(ordered), value)
                groups[name, *_place(run, name)].append(probed)
    found = [_of_group(name, device, group) for (name, device, _), group in groups.items()]
    return _together(found)


class _Probed(NamedTuple):
    """A probe before a trial; moments count in blocks."""

    run: Run
    moment: float
    value: float


def _of_group(name: str, device: str, probes: Sequence[_Probed]) -> Found:
    """Return what probes that should be alike say of the machine."""
    at: dict[str, Level] = {"device": device} if device else {}
    of = f"{name}{f' of {device}' if device else ''}"
    if len(probes) < _LEAST_PROBES:
        few = message(
            "{n} probes of {probe} are too few to judge one by the others.", n=len(probes), probe=of
        )
        return Found([], [few])
    failed, notes = [], []
    change = drift.slope({probed.moment: probed.value for probed in probes})
    if probes[-1].moment > _DRIFT_BLOCKS - 1 and drift.drifted(change):
        says = message(
            "the machine drifted: {probe} changed by {change:+.1%} a block",
            probe=of,
            change=change.estimate,
        )
        failed.append(FailedControl(says, at=at, is_drift=True))
    low, high = probe_range(name, [probed.value for probed in probes])
    out = [probed.run for probed in probes if not low <= probed.value <= high]
    if out:
        notes.append(
            message(
                "{probe} was out of its range ({low:,.0f} to {high:,.0f}) before {n} of {total} "
                "trials ({trials}).",
                probe=of,
                low=low,
                high=high,
                n=len(out),
                total=len(probes),
                trials=", ".join(str(run.trial) for run in out),
            )
        )
        if len(out) >= _LEAST_OUT:
            failed += _uneven([probed.run for probed in probes], out, of)
    return Found(failed, notes, frozenset(run.trial for run in out))


def _uneven(runs: Sequence[Run], out: Sequence[Run], of: str) -> Iterator[FailedControl]:
    """Yield the arms on which disturbances fell more, or less, than a drawn order gives by chance.

    Where they fall on all arms alike, intervals hold their level however many there are (`make
    evaluate`), since the order in each block was drawn. Given how many trials of each block were
    disturbed, how often an arm was is a sum of independent draws, one a block.
    """
    arms: dict[tuple[str, bool], list[Run]] = defaultdict(list)
    for run in runs:
        arms[_arm(run), run.twin].append(run)
    of_block, disturbed = (Counter(run.block for run in some) for some in (runs, out))
    trials = {run.trial for run in out}
    for those in arms.values():
        share = [disturbed[run.block] / of_block[run.block] for run in those]
        seen = sum(run.trial in trials for run in those)
        if 2 * len(arms) * _tail(share, seen) <= _UNEVEN_CHANCE:
            levels = {n: v for n, v in those[0].factors.items() if n != "server"}
            says = message(
                "the machine changed with an arm: {probe} was out of its range before {n} of "
                "{total} trials of {arm}, where {due:.1f} were due",
                probe=of,
                n=seen,
                total=len(those),
                arm=arm_text(those[0]),
                due=sum(share),
            )
            yield FailedControl(says, str(those[0].factors["server"]), levels)


def _tail(chances: Sequence[float], seen: int) -> float:
    """Return how likely independent draws hit as often as was seen, or on either side of it.

    Of the two tails the smaller. The sum of draws of different chances has Poisson's binomial
    distribution, computed draw by draw.

    >>> round(_tail([0.5, 0.5, 0.5], 3), 3), round(_tail([0.1, 0.2], 1), 2)
    (0.125, 0.28)
    """
    mass = [1.0]
    for chance in chances:
        mass = [
            stays * (1 - chance) + comes * chance
            for stays, comes in zip([*mass, 0.0], [0.0, *mass], strict=True)
        ]
    return min(math.fsum(mass[seen:]), math.fsum(mass[: seen + 1]))


def _together(found: Sequence[Found]) -> Found:
    return Found(
        [failed for one in found for failed in one.failed],
        [note for one in found for note in one.notes],
        frozenset().union(*(one.doubtful for one in found)),
    )


def _place(run: Run, name: str) -> tuple[str, str]:
    """Return the device that a probe is of, if it is a disk's, and the host."""
    host = {k: v for k, v in run.conditions["host"].items() if k != "disk"}
    host["member"] = run.member  # Two hosts may look the same and not be as fast.
    device = str(run.factors.get("device", "")) if name.startswith("disk") else ""
    return device, files.canonical(host)


def probe_range(name: str, values: Sequence[float]) -> tuple[float, float]:
    """Return between which values a probe is as the others are.

    >>> low, high = probe_range("cpu_ops_per_s", [100.0, 101.0, 99.0, 100.0, 160.0])
    >>> round(low), round(high)
    (87, 115)
    """
    logs = [math.log(value) for value in values]
    middle = median(logs)
    spread = median(abs(value - middle) for value in logs) * _MAD_TO_DEVIATION * _DEVIATIONS
    most = math.log(_MOST.get(name, _MOST_USUAL))
    width = min(max(spread, math.log(_LEAST)), most)
    return math.exp(middle - width), math.exp(middle + width)


def a_a(runs: RunSet, metrics: Mapping[str, Sequence[str]], level: float = stats.LEVEL) -> Found:
    """Return where an arm and its twin, measured in the same blocks, were not alike.

    The control fails where the whole interval of their ratio is more than 5 % from 1. By chance
    an interval excludes 1 in one of twenty cases, and seldom by as much: that is only noted.

    Parameters
    ----------
    metrics : those that are compared, with the within-factors of each
    """
    failed, notes, compared, differing = [], [], 0, 0
    for arm in _twins(runs):
        for metric, within in metrics.items():
            for at, of, to in _paired(arm, metric, within):
                ratio = stats.paired_ratio(of, to, level)
                if math.isnan(ratio.low):
                    continue
                compared += 1
                differing += not ratio.low <= 1 <= ratio.high
                if ratio.low > 1 + A_A_MARGIN or ratio.high < 1 / (1 + A_A_MARGIN):
                    first, _ = arm[0]
                    says = _unlike(first, metric, at, ratio)
                    failed.append(FailedControl(says, str(first.factors["server"]), at))
    if compared:
        notes.append(
            message(
                "Of {n} comparisons of an arm with itself, {differing} had an interval that "
                "leaves 1 out; {chance:.0%} of them are expected to by chance.",
                n=compared,
                differing=differing,
                chance=1 - level,
            )
        )
    return Found(failed, notes)


def _unlike(run: Run, metric: str, within: Mapping[str, Level], ratio: stats.Interval) -> Message:
    levels = ", ".join(f"{name} {level}" for name, level in within.items())
    return message(
        "an arm measured twice ({arm}) differed from itself in {metric} by a factor of "
        "{ratio:.3g} ({low:.3g} to {high:.3g})",
        arm=arm_text(run),
        metric=message("{metric} at {levels}", metric=metric, levels=levels) if levels else metric,
        ratio=ratio.estimate,
        low=ratio.low,
        high=ratio.high,
    )


_Pairs = list[tuple[Run, Run]]


def _twins(runs: RunSet) -> list[_Pairs]:
    """Return each arm that has twins, as its valid runs with their twins, block by block."""
    valid = [run for run in runs.runs if run.valid]
    firsts = {_arm_block(run): run for run in valid if not run.twin}
    found: dict[str, _Pairs] = defaultdict(list)
    for run in valid:
        if run.twin and (first := firsts.get(_arm_block(run))):
            found[_arm(run)].append((first, run))
    return list(found.values())


def _paired(
    arm: _Pairs, metric: str, within: Sequence[str]
) -> Iterator[tuple[dict[str, Level], list[float], list[float]]]:
    """Yield the levels of the within-factors, and a metric of the twins and of the firsts there."""
    values: dict[str, tuple[dict[str, Level], list[float], list[float]]] = {}
    for first, twin in arm:
        of, to = (_by_level(run, metric, within) for run in (twin, first))
        for key in sorted(of.keys() & to.keys()):
            _, tops, bottoms = values.setdefault(key, (of[key][0], [], []))
            if of[key][1] > 0 and to[key][1] > 0:
                tops.append(of[key][1])
                bottoms.append(to[key][1])
    yield from (found for found in values.values() if found[1])


def _by_level(
    run: Run, metric: str, within: Sequence[str]
) -> dict[str, tuple[dict[str, Level], float]]:
    """Return a metric of a run by the levels of its within-factors; other rows are left out."""
    found = {}
    for row in run.observations:
        at = {name: row[name] for name in within if name in row}
        if metric in row and len(at) == len(within):
            found[files.canonical(at)] = at, float(row[metric])
    return found


def order(runs: RunSet) -> Found:
    """Return whether the arms ran in the same order in every block, and how even their places were.

    Prevents what always comes first, or always after the same arm, from being taken for the arm.
    """
    blocks: dict[int, list[Run]] = defaultdict(list)
    for run in sorted(runs.runs, key=lambda run: run.trial):
        if not run.twin:
            blocks[run.block].append(run)
    orders = [[_arm(run) for run in block] for block in blocks.values()]
    if len(orders) < 2:
        return Found([], [])
    chance = math.prod(_chance_of_same(one, other) for one, other in itertools.pairwise(orders))
    notes = list(_places(orders, [run for block in blocks.values() for run in block]))
    if 0 < chance <= _ORDER_CHANCE:
        says = message("the arms ran in the same order in each of {n} blocks", n=len(orders))
        note = message("The arms ran in the same order in each of {n} blocks.", n=len(orders))
        return Found([FailedControl(says)], [*notes, note])
    return Found([], notes)


def _chance_of_same(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how likely shuffling gives two blocks the order that they have alike, or 0."""
    common = set(one) & set(other)
    first, second = ([arm for arm in arms if arm in common] for arms in (one, other))
    return 1 / math.factorial(min(len(common), 20)) if first == second else 0.0


def _places(orders: Sequence[Sequence[str]], runs: Sequence[Run]) -> Iterator[Message]:
    """Yield how far the arms' mean places are apart, and how often one arm followed another."""
    of: dict[str, list[float]] = defaultdict(list)
    for arms in orders:
        for place, arm in enumerate(arms):
            of[arm].append(place / max(len(arms) - 1, 1))
    means = sorted(fmean(places) for places in of.values())
    yield message(
        "Mean places of the {n} arms within {blocks} blocks: {low:.2f} to {high:.2f}, where 0 is "
        "always first and 1 always last.",
        n=len(means),
        blocks=len(orders),
        low=means[0],
        high=means[-1],
    )
    followed: Counter[tuple[str, str]] = Counter(
        (files.canonical(before), _arm(run))
        for run in runs
        if (before := run.conditions.get("predecessor"))
    )
    if followed:
        yield message(
            "No arm followed the same other one more than {n} times in {blocks} blocks.",
            n=max(followed.values()),
            blocks=len(orders),
        )


def _arm(run: Run) -> str:
    return files.canonical(run.factors)


def _arm_block(run: Run) -> tuple[int, str]:
    return run.block, _arm(run)

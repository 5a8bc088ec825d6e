"""The verbs. Each imports what it needs when it runs, so that `--help` answers at once."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from innolab.base.errors import InnolabError, InputError

app = typer.Typer(
    help="Re-run published studies of MySQL/InnoDB storage and memory, and judge their claims.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Scale = Annotated[str, typer.Option(help="smoke (a minute), quick (the default) or paper.")]
Effort = Annotated[
    str | None,
    typer.Option(help="smoke, quick, reference or a time as 90min; else that of the scale."),
]
Named = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="A parameter of the study."),
]
StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="See: innolab list")]
ReportName = Annotated[str, typer.Argument(metavar="REPORT", help="A folder, or STUDY/VERSION.")]
# As long as a path may be. Nothing that a message quotes is longer.
_MOST_CHARACTERS = 4096
_MOST_PARTS = 50
# Earlier reports that a plan is compared with: reading one takes a tenth of a second.
_MOST_EARLIER = 4


@app.command("list", epilog="Example: innolab list --names")
def list_(
    names: Annotated[bool, typer.Option("--names", help="The studies' names alone.")] = False,
) -> None:
    """List the studies, and the reports there are of each."""
    from innolab import studies
    from innolab.report import folders

    for name in studies.names():
        if names:
            print(name)
            continue
        print(f"{name}: {studies.find(name).question}")
        for folder in folders.finished(name):
            print(f"  {name}/{folder.name}")
        for folder in folders.unfinished(name):
            print(f"  {name}/{folder.name} (innolab run resumes it)")


@app.command(epilog="Example: innolab doctor")
def doctor() -> None:
    """Say what this host has, what is missing, and what may disturb a measurement."""
    from innolab.run import doctor

    findings = doctor.examine()
    for finding in findings:
        print(f"{finding.result:8}{finding.name}: {finding.says}")
    if any(finding.result == "missing" for finding in findings):
        raise InnolabError("Requirements are missing; the lines above say what to do.")


@app.command(epilog="Example: innolab plan multi-buffer-pool --scale smoke -p replicates=3")
def plan(
    study: StudyName,
    scale: Scale = "quick",
    effort: Effort = None,
    parameter: Named = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="Print every trial in its order, and nothing else.")
    ] = False,
) -> None:
    """Say how long a study takes and what it may decide, without running anything.

    Both follow from earlier reports of the study, those of the same scale and effort first.
    """
    from innolab import studies
    from innolab.run import expected, planned
    from innolab.run.plan import prepare

    found = studies.find(study)
    chosen = prepare(found, found.check(_parameters(found, scale, parameter, effort)))
    of_plan = found.planned(chosen)
    if trials:
        lines = [planned.trial_line(trial) for trial in of_plan]
    else:
        earlier = _earlier(found, chosen)
        expects = expected.expected(found, chosen, of_plan, earlier)
        plans = {report.name: report.plan for report in earlier}
        lines = planned.summary(chosen, of_plan, expects, plans)
    for name, why in {**chosen.unavailable, **chosen.missing_devices}.items():
        lines.append(f"not run: {name}: {why}")
    print("\n".join(lines))


@app.command(epilog="Example: innolab run multi-buffer-pool -p builds=/usr/sbin/mysqld")
def run(
    study: StudyName,
    scale: Scale = "quick",
    effort: Effort = None,
    parameter: Named = None,
    version: Annotated[
        str | None, typer.Option(help="The report's version; else the next.")
    ] = None,
) -> None:
    """Measure a study and make its report; resume an interrupted run of the same plan."""
    from innolab import studies
    from innolab.base.clock import Clock
    from innolab.hosts import machine
    from innolab.record import runlog
    from innolab.record.runlog import RunLog
    from innolab.report import folders
    from innolab.report.provisional import Provisional
    from innolab.run.measure import measure
    from innolab.run.plan import prepare
    from innolab.run.progress import Shown

    clock = Clock()
    clock.add_earlier({"set-up": _set_up_s()})
    found = studies.find(study)
    parameters = found.check(_parameters(found, scale, parameter, effort))
    chosen = prepare(found, parameters)
    # Held until the report is sealed: a second run of the same plan would work in its folder.
    with machine.measuring_alone():
        folder = folders.begin(chosen, version)
        if recorded := len(RunLog(folder / runlog.FILE, found.upgrade).load()[0]):
            print(f"Resuming {folder.name} ({recorded} runs recorded).", file=sys.stderr)
        with Shown() as progress:
            shown = Provisional(found, folder, progress)
            runs = measure(found, folder, progress, clock, shown.after_trial)
        if all(one.status == "failed" for one in runs.runs):
            raise InnolabError(
                f"All {len(runs.runs)} runs failed; the first says: {runs.runs[0].error} They are "
                f"kept in {folder}. Move it away to measure again."
            )
        with clock.stage("rendering"):
            from innolab.report import manifest, render

            render.render(found, folder)
        sealed = manifest.seal(found, folder, runs.runs, clock.account())
    print(sealed / render.PAGE_FILE)


@app.command("render", epilog="Example: innolab render more-memory/2026-01-31-1 -p buy_data_gb=500")
def render_(
    report: ReportName,
    parameter: Named = None,
    version: Annotated[str | None, typer.Option(help="The new version; else the next.")] = None,
) -> None:
    """Make a new version of a report from its recorded runs with today's notebook.

    Parameters that only ask of the results, as what to buy, may change.
    """
    from innolab import studies
    from innolab.base.clock import Clock
    from innolab.record.plan import Plan
    from innolab.report import folders, manifest, render

    clock = Clock()
    source = folders.find(report)
    plan = Plan.read(source)
    study = studies.find(plan.study)
    given = _parameters(study, plan.parameters["scale"], parameter)
    folder = folders.begin_from(source, version, study.asking(plan, given))
    with clock.stage("rendering"):
        render.render(study, folder)
    runs = study.read(folder).runs
    # The runs took their time in the source; only the rendering is new.
    time_s = manifest.read(source)["time_s"]
    rendering = round(clock.seconds["rendering"], 2)
    total = time_s["total"] - time_s["rendering"] + rendering
    time_s = {**time_s, "rendering": rendering, "total": round(total, 2)}
    print(manifest.seal(study, folder, runs, time_s, source.name) / render.PAGE_FILE)


@app.command(epilog="Example: innolab verify multi-buffer-pool/2026-01-31-1")
def verify(
    report: ReportName,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Execute a notebook that is not the study's, in a sandbox."),
    ] = False,
    signers: Annotated[
        Path | None, typer.Option(help="Allowed signers, as ssh-keygen reads them.")
    ] = None,
) -> None:
    """Check that a report is whole and follows from its recorded runs. Needs no server, no root.

    Nothing of the report is executed: all that it shows is computed again by the study's own code.
    """
    from innolab.report import folders
    from innolab.report import verify as verifying

    folder = folders.find(report)
    found = verifying.verify(folder, execute=execute, signers=signers)
    for line in [*found.notes, *found.faults]:
        # What an unknown author wrote must not control the reader's terminal.
        print("".join(c if c.isprintable() else "?" for c in line))
    if found.faults:
        raise InnolabError(
            f"{folder.name} does not hold: {len(found.faults)} faults, listed above."
        )
    print(
        f"{folder.name} holds: files, runs, settings, series, checks, verdicts, figures, notebook "
        f"and page agree.\n{verifying.LIMITS}"
    )


@app.command(epilog="Example: innolab sign multi-buffer-pool/2026-01-31-1 --key ~/.ssh/id_ed25519")
def sign(
    report: ReportName,
    key: Annotated[Path, typer.Option(help="An SSH key, private, or public with an agent.")],
) -> None:
    """Vouch for a report with an SSH key: a statement over its manifest, beside it."""
    from innolab.report import folders, signatures

    print(signatures.sign(folders.find(report), key))


@app.command(epilog="Example: innolab compare STUDY/2026-01-31-1 STUDY/2026-02-14-1 --html")
def compare(
    first: ReportName,
    second: ReportName,
    html: Annotated[bool, typer.Option("--html", help="Write a page and print its path.")] = False,
) -> None:
    """Set two reports side by side: the second's values over the first's, changed verdicts."""
    from innolab.report import compare as comparing
    from innolab.report import compare_page, folders

    found = comparing.compare(folders.find(first), folders.find(second))
    if html:
        print(compare_page.write(found))
        return
    for difference in found.differences:
        print(f"Not the same beside what was measured: {difference}.")
    for arm, metric, ratio in found.ratios:
        print(f"{arm:60} {metric:10} {ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})")
    for pair in found.changed:
        print(f"{pair.claim} on {pair.server}: {', then '.join(pair.verdicts)}")
    if not found.changed:
        print("No verdict changed.")
    print(found.summary)


@app.command(epilog="Example: innolab index")
def index() -> None:
    """Write reports/index.html, which lists all reports, and print its path."""
    from innolab.report import index as indexing

    print(indexing.write())


def _earlier(study: Any, chosen: Any) -> list[Any]:
    """Return the earlier reports that a plan is compared with, that which is preferred first.

    A damaged one is left out: it is no reason not to plan, and `verify` says what is wrong.
    """
    from innolab.record.plan import Plan
    from innolab.report import folders, manifest
    from innolab.run.expected import Earlier, effort_of, nearest_first

    plans, reports = {}, []
    for folder in folders.finished(study.name):
        with contextlib.suppress(InnolabError, ValueError):
            effort_of(plan := Plan.read(folder))
            plans[folder.name] = plan
    for version in nearest_first(plans, chosen)[:_MOST_EARLIER]:
        folder = folders.reports_folder() / study.name / version
        with contextlib.suppress(InnolabError):
            time_s = manifest.read(folder)["time_s"]
            name = f"{study.name}/{version}"
            reports.append(Earlier(name, plans[version], study.read(folder), time_s))
    return reports


def _parameters(
    study: Any, scale: str, given: list[str] | None, effort: str | None = None
) -> dict[str, Any]:
    from innolab.base.quoting import shown

    result: dict[str, Any] = {"scale": scale, **({"effort": effort} if effort else {})}
    for item in given or []:
        name, equals, text = item.partition("=")
        if not equals or not name or not name.isprintable():
            raise InputError(
                f"{shown(item)} is no parameter; write it as NAME=VALUE, as in -p seed=7."
            )
        try:
            value = _value(text)
        except ValueError as why:
            raise InputError(f"{shown(name)} cannot be read: {why}. Nothing was written.") from None
        field = study.parameters.model_fields.get(name)
        if field is not None and field.annotation == list[str] and isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        result[name] = value
    return result


def _value(text: str) -> Any:
    """Return what a parameter's text holds as YAML. Text that is no YAML stays as it is.

    Raises
    ------
    ValueError
        Where it is too long, or holds too many lists and mappings.
    """
    import yaml

    if len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"its value has {len(text):,} characters, and {_MOST_CHARACTERS:,} are the most allowed"
        )
    try:
        parts = 0
        for token in yaml.scan(text):
            # Aliases of aliases can stand for a billion values. No parameter needs them, nor tags.
            if isinstance(token, yaml.AliasToken | yaml.TagToken):
                return text
            parts += isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken)
            parts += isinstance(token, yaml.BlockSequenceStartToken | yaml.BlockMappingStartToken)
            if parts > _MOST_PARTS:
                break
        else:
            return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, ArithmeticError):
        # Also what only looks like a date or a number, such as 2026-99-99.
        return text
    raise ValueError(f"its value holds more than {_MOST_PARTS} lists and mappings")


def _set_up_s() -> float:
    """Return the seconds since `make` began: the set-up before this program started."""
    began = os.environ.get("INNOLAB_BEGAN")
    try:
        return max(0.0, time.time() - float(began)) if began else 0.0
    except ValueError:
        return 0.0


class _EndedError(BaseException):
    """Asked to end. No Exception: the trial it falls into has not failed and is not recorded."""


def _end(_number: int, _frame: object) -> None:
    raise _EndedError


def main() -> None:
    """Run the command line; faults become one paragraph on standard error and an exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        app()
    except InnolabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
    except OSError as error:
        print(
            f"A file could not be read or written: {error}. What was recorded is kept; fix "
            "this and run the same command again.",
            file=sys.stderr,
        )
        sys.exit(1)
    except RecursionError:
        print(
            "A file that was given is nested too deep to be read. Take it from its source.",
            file=sys.stderr,
        )
        sys.exit(2)
    except _EndedError:
        print(
            "Interrupted. All finished runs are kept; run the same command to resume.",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()

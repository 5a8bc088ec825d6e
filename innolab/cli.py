"""The verbs. Each imports what it needs when it runs, so that `--help` answers at once."""

import os
import signal
import sys
import time
from typing import Annotated, Any

import typer

from innolab.errors import InnolabError, InputError

app = typer.Typer(
    help="Re-run published studies of MySQL/InnoDB storage and memory, and judge their claims.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Scale = Annotated[str, typer.Option(help="smoke (a minute), quick (the default) or paper.")]
Named = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="A parameter of the study."),
]
StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="See: innolab list")]
ReportName = Annotated[str, typer.Argument(metavar="REPORT", help="A folder, or STUDY/VERSION.")]


@app.command("list", epilog="Example: innolab list --names")
def list_(
    names: Annotated[bool, typer.Option("--names", help="The studies' names alone.")] = False,
) -> None:
    """List the studies, and the reports there are of each."""
    from innolab import studies
    from innolab.report import folders

    for name in studies.NAMES:
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
    """Say what this host has, what it lacks, and what may disturb a measurement."""
    from innolab import doctor

    findings = doctor.examine()
    for finding in findings:
        print(f"{finding.result:8}{finding.name}: {finding.says}")
    if any(finding.result == "lacking" for finding in findings):
        raise InnolabError("Something is lacking; see the lines above for what to do.")


@app.command(epilog="Example: innolab plan multi-buffer-pool --scale smoke -p replicates=3")
def plan(study: StudyName, scale: Scale = "quick", parameter: Named = None) -> None:
    """Print the trials in the order of their running, without running any."""
    from innolab import measure, studies
    from innolab.study import check_parameters
    from innolab.study import plan as planned

    found = studies.find(study)
    chosen = measure.prepare(found, check_parameters(found, _parameters(found, scale, parameter)))
    parameters = check_parameters(found, chosen.parameters)
    for trial in planned(found, parameters, chosen.builds):
        levels = "  ".join(f"{name}={level}" for name, level in trial.factors.items())
        print(f"{trial.position:4}  block {trial.block + 1}  {levels}")
    for name, why in {**chosen.unavailable, **chosen.missing_devices}.items():
        print(f"not run: {name}: {why}")


@app.command(epilog="Example: innolab run multi-buffer-pool -p builds=/usr/sbin/mysqld")
def run(
    study: StudyName,
    scale: Scale = "quick",
    parameter: Named = None,
    version: Annotated[
        str | None, typer.Option(help="The report's version; else the next.")
    ] = None,
) -> None:
    """Measure a study and make its report; go on where an earlier run of the same plan stopped."""
    from innolab import machine, measure, studies
    from innolab.clock import Clock
    from innolab.progress import Shown
    from innolab.report import folders
    from innolab.runs import RunLog
    from innolab.study import check_parameters

    clock = Clock()
    clock.add_earlier({"set-up": _set_up_s()})
    found = studies.find(study)
    parameters = check_parameters(found, _parameters(found, scale, parameter))
    chosen = measure.prepare(found, parameters)
    # Held until the report is sealed: a second run of the same plan would work in its folder.
    with machine.measuring_alone():
        folder = folders.begin(chosen, version)
        if recorded := len(RunLog(folder / "runs.jsonl").load()[0]):
            print(f"Going on with {folder.name}, which holds {recorded} runs.", file=sys.stderr)
        with Shown() as progress:
            runs = measure.measure(found, folder, progress, clock)
        if all(one.status == "failed" for one in runs.runs):
            raise InnolabError(
                f"All {len(runs.runs)} runs failed; the first says: {runs.runs[0].error} They are "
                f"kept in {folder}. Move it away to measure anew."
            )
        with clock.stage("rendering"):
            from innolab.report import manifest, render

            render.render(found, folder)
        sealed = manifest.seal(folder, runs.runs, clock.account())
    print(sealed / render.PAGE_FILE)


@app.command("render", epilog="Example: innolab render more-memory/2026-01-31-1 -p buy_data_gb=500")
def render_(
    report: ReportName,
    parameter: Named = None,
    version: Annotated[str | None, typer.Option(help="The new version; else the next.")] = None,
) -> None:
    """Make a new version of a report from its recorded runs with today's notebook.

    Parameters that only ask of the results, as what to buy, may be given anew.
    """
    from innolab import studies
    from innolab.clock import Clock
    from innolab.plans import Plan
    from innolab.report import folders, manifest, render
    from innolab.runs import RunSet

    clock = Clock()
    source = folders.find(report)
    plan = Plan.read(source)
    study = studies.find(plan.study)
    given = _parameters(study, plan.parameters["scale"], parameter)
    folder = folders.begin_from(source, version, plan.asking(study, given))
    with clock.stage("rendering"):
        render.render(study, folder)
    runs = RunSet.read(study, folder).runs
    # The runs took their time in the source; only the rendering is new.
    time_s = manifest.read(source)["time_s"]
    rendering = round(clock.seconds["rendering"], 2)
    total = time_s["total"] - time_s["rendering"] + rendering
    time_s = {**time_s, "rendering": rendering, "total": round(total, 2)}
    print(manifest.seal(folder, runs, time_s, source.name) / render.PAGE_FILE)


@app.command(epilog="Example: innolab verify multi-buffer-pool/2026-01-31-1")
def verify(report: ReportName) -> None:
    """Check that a report is whole and follows from its recorded runs. Needs no server, no root."""
    from innolab.report import folders
    from innolab.report import verify as verifying

    folder = folders.find(report)
    faults = verifying.verify(folder)
    for fault in faults:
        print(fault)
    if faults:
        raise InnolabError(f"{folder.name} does not hold: {len(faults)} faults, listed above.")
    print(f"{folder.name} holds: files, runs, checks, verdicts, figures and notebook agree.")


@app.command(epilog="Example: innolab compare STUDY/2026-01-31-1 STUDY/2026-02-14-1")
def compare(first: ReportName, second: ReportName) -> None:
    """Set two reports side by side: the second's values over the first's, changed verdicts."""
    from innolab.report import compare as comparing
    from innolab.report import folders

    others, ratios, changed = comparing.compare(folders.find(first), folders.find(second))
    for difference in others:
        print(f"Not the same beside what was measured: {difference}.")
    for row in ratios:
        ratio = row["ratio"]
        print(
            f"{row['server']:14} {row['case']:14} {row['metric']:20} "
            f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
        )
    for row in changed:
        print(f"{row['claim']} on {row['server']}: {row['first']}, then {row['second']}")
    if not changed:
        print("No verdict changed.")


@app.command(epilog="Example: innolab index")
def index() -> None:
    """Write reports/index.html, which lists all reports, and print its path."""
    from innolab.report import index as indexing

    print(indexing.write())


def _parameters(study: Any, scale: str, given: list[str] | None) -> dict[str, Any]:
    import yaml

    result: dict[str, Any] = {"scale": scale}
    for item in given or []:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise InputError(f"'{item}' is no parameter; write it as NAME=VALUE, as in -p seed=7.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = text
        field = study.parameters.model_fields.get(name)
        if field is not None and field.annotation == list[str] and isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        result[name] = value
    return result


def _set_up_s() -> float:
    """Return the seconds since `make` began: the set-up before this program started."""
    began = os.environ.get("INNOLAB_BEGAN")
    try:
        return max(0.0, time.time() - float(began)) if began else 0.0
    except ValueError:
        return 0.0


class _EndedError(BaseException):
    """Told to end. No Exception: the trial it falls into has not failed and is not recorded."""


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
            f"A file could not be read or written: {error}. What was recorded is kept; mend that "
            "and run the same again.",
            file=sys.stderr,
        )
        sys.exit(1)
    except _EndedError:
        print(
            "Interrupted. All finished runs are kept; run the same again to go on.", file=sys.stderr
        )
        sys.exit(1)


if __name__ == "__main__":
    main()

"""Every statement of the seeds is accounted for: ids hold both ways, and none is without reason."""

import csv
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from innolab import studies

with (ROOT / "data" / "published" / "statements.csv").open(newline="") as file:
    STATEMENTS = list(csv.DictReader(file))
SEEDS = ("S0", "S1", "S2", "S3", "S4")


def _entries(study: str) -> dict[str, str]:
    """Return how its source stands by each entry of a file of claims, by the entry's id."""
    path = Path(ROOT / "data" / "claims" / f"{study}.yml")
    return {entry["id"]: entry["stands"] for entry in yaml.safe_load(path.read_text())}


def _named(study: str, column: str) -> set[str]:
    rows = [row for row in STATEMENTS if row["study"] == study]
    return {name for row in rows for name in row[column].split()}


@pytest.mark.parametrize("study", sorted(studies.names()))
def test_every_published_claim_has_a_statement_and_every_claim_named_exists(study: str) -> None:
    entries = _entries(study)
    published = {name for name, stands in entries.items() if stands != "hypothesis"}
    assert published <= _named(study, "claims") <= entries.keys()


@pytest.mark.parametrize("study", sorted(studies.names()))
def test_every_published_figure_has_a_statement_and_every_figure_named_exists(study: str) -> None:
    figures = studies.find(study).published()
    of_seeds = {name for name, figure in figures.items() if figure.seed != "other"}
    assert of_seeds == _named(study, "figures")


def test_a_claims_source_is_a_seed_that_states_it() -> None:
    stated = {
        (row["study"], claim): set[str]() for row in STATEMENTS for claim in row["claims"].split()
    }
    for row in STATEMENTS:
        for claim in row["claims"].split():
            stated[row["study"], claim].add(row["seed"])
    for study in studies.names():
        for entry in yaml.safe_load((ROOT / "data" / "claims" / f"{study}.yml").read_text()):
            if source := entry.get("source"):
                named = {seed for seed in SEEDS if seed in source}
                assert named and named <= stated[study, entry["id"]], entry["id"]


def test_every_outcome_is_borne_out() -> None:
    names = studies.names()
    for row in STATEMENTS:
        has_claims, has_figures = bool(row["claims"]), bool(row["figures"])
        assert (row["outcome"] == "claim") is has_claims, row["id"]
        assert row["outcome"] != "figure" or has_figures, row["id"]
        if row["outcome"] in ("deviation", "opinion", "background"):
            assert row["why"], row["id"]
        assert row["study"] in names, row["id"]


def test_statements_are_in_the_order_of_their_seeds() -> None:
    assert len(STATEMENTS) >= 150
    order = [(row["seed"], int(row["line"])) for row in STATEMENTS]
    assert order == sorted(order)

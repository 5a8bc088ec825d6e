"""Whether a pool had learnt what skewed access wants, before it was measured."""

from statistics import fmean

from innolab.analysis import cache_misses
from innolab.analysis.doubts import Doubted, Sample
from innolab.base.language import message
from innolab.record.run import arm_text

_METRIC = "pages_read_per_tx"
# Point C: data three times the pool.
_C = 0.333333
# The miss ratio hardly depends on the number of pages that the law is spread over.
_PAGES_OF_LAW = 20_000
# The law is an approximation that is off by a fifth at most on simulated pools.
_UNSETTLED, _FEW_PAGES = 2.0, 0.05


def unsettled(sample: Sample) -> Doubted | None:
    """Doubt an arm whose pool had not learnt yet what skewed access wants.

    Throughput may be even over a window while the pool still fills with the wanted pages. Such an
    arm is slower than it will be, so it contradicts nothing. The pages that uniform access reads
    at C tell how many a transaction asks for, the law of access how many of them miss.
    """
    for side in sample.claim.sides if sample.claim.compare else []:
        if side["distribution"] == "uniform" or side["load"] != "read_only":
            continue
        uniform = {**side, "distribution": "uniform", "pool_ratio": _C}
        read, asked = (list(sample.runs.values(_METRIC, **at).values()) for at in (side, uniform))
        if not read or not asked:
            continue
        run, _ = next(sample.runs.observed(**side))
        rows = run.conditions["dataset"]["rows"]
        law = str(side["distribution"])
        miss = cache_misses.miss_ratio(law, float(side["pool_ratio"]), _PAGES_OF_LAW, rows)
        found, settled = fmean(read), fmean(asked) / (1 - _C) * miss
        if found > _UNSETTLED * settled + _FEW_PAGES:
            says = message(
                "the pool of {arm} had not settled: it read {read:.2g} pages a transaction, where "
                "{settled:.2g} would miss once it has learnt which are wanted",
                arm=arm_text(run),
                read=found,
                settled=settled,
            )
            return Doubted(says, ["contradicted"], message("a pool that has learnt"))
    return None

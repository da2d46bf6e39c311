"""Report: the tables and charts that people read, and the numbers that DVC shows.

    python -m pipeline.report --extract data/extract ... --evaluate data/evaluate --out reports
    python -m pipeline.report --print --out reports     prints the headline of a report that exists

Writes OUT/report.html (one file that opens offline), OUT/metrics.json, OUT/headline.txt and CSVs in OUT/plots; and
OUT/run.html, which says what the run took and is not a result. A stage that has not run is no error: the report names
it.
"""

import argparse
from dataclasses import fields
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.outputs import making
from pipeline.core.params import AtLeastOne, load_params, params
from pipeline.core.runtime import run_main
from pipeline.core.work import write_json
from pipeline.report.content import calibration_points, page_content
from pipeline.report.export import metrics, write_plots, write_text
from pipeline.report.gather import Folders, gather, run_page
from pipeline.report.page import render
from pipeline.report.samples import signal_histograms
from pipeline.report.views import benchmarks, corpora_of, headline

REPORT, RUN = "report.html", "run.html"


@params
class ReportParams:
    """Section `report` of params.yaml: `worst` disagreements each way, points in a scatter, bins of a histogram."""

    worst: AtLeastOne
    scatter_points: AtLeastOne
    signal_bins: AtLeastOne


def main() -> None:
    """Parse paths, load `report`, write the report and print its headline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    for field in fields(Folders):
        default = Path("models" if field.name in ("pretrain", "finetune") else "data") / field.name
        parser.add_argument(f"--{field.name}", type=Path, default=default)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--print", dest="only_print", action="store_true", help="only print the headline of the report in --out"
    )
    arguments = parser.parse_args()
    if not arguments.only_print:
        folders = Folders(**{field.name: getattr(arguments, field.name) for field in fields(Folders)})
        params = load_params(arguments.params, "report", ReportParams)
        with making(arguments.out, among=True) as out:
            report(params, arguments.params, folders, out)
    print(show(arguments.out))


def report(params: ReportParams, params_file: Path, folders: Folders, out: Path) -> None:
    """Write everything to `out`."""
    found = gather(params_file, folders)
    marks = benchmarks(found.agreement, corpora_of(found))
    histograms = signal_histograms(folders.label, found.signals, params.signal_bins)
    points = calibration_points(found, marks, params.scatter_points)
    write_json(out / "metrics.json", metrics(found, marks))
    write_plots(out / "plots", found, marks, histograms, points)
    write_text(out / "headline.txt", headline(found, marks) + "\n")
    content = page_content(found, marks, histograms, points, folders.perturb, params.worst)
    write_text(out / REPORT, render("report", run_page=RUN, **content))
    write_text(out / RUN, run_page(found.profile, folders, (*found.signals, *found.variants), report_page=REPORT))


def show(out: Path) -> str:
    """The headline tables of the report in `out`, and the path of its page."""
    file = out / "headline.txt"
    if not file.exists():
        raise InputError("no report here yet (run dvc repro)", file=out)
    return f"\n{file.read_text(encoding='utf-8')}\nReport: {out / REPORT}"


if __name__ == "__main__":
    run_main(main)

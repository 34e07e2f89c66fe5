"""A command that measures one network: its options; its figures as JSON, Markdown and a page."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.pages.markdown import markdown_text
from benchmarks.results.run_folder import Json
from electrify.page.page import Page
from electrify.stage.folder import write_json, write_text
from electrify.system.outcome import UserError, status_of
from electrify.system.progress import log, setup_logging


def figures_parser(name: str) -> argparse.ArgumentParser:
    """The options that such commands share."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", allow_abbrev=False)
    add = parser.add_argument
    add("model", metavar="MODEL", help="run, export folder, or model of transformers")
    generator = "masked language model, where MODEL has none beside it"
    add("--generator", metavar="MODEL", help=generator)
    text = "tasks, or files with a sentence a line, that the model was not trained on"
    add("--text", metavar="NAME", nargs="+", required=True, help=text)
    add("--data-dir", metavar="DIR", type=Path, default=Path(), help="folder of the tasks' files")
    add("--output", metavar="DIR", type=Path, help="for the figures; else in the run folder")
    add("--seed", type=int, default=0, help="of what is drawn")
    return parser


def write_figures(
    options: argparse.Namespace,
    name: str,
    title: str,
    measure: Callable[[argparse.Namespace], Json],
    add: Callable[[Page, Json], None],
    lines: Callable[[Json], Sequence[str]],
) -> int:
    """Measure and write `<name>.json`, `.md` and `.html`; the exit status, as `status_of`."""
    setup_logging()

    def work() -> int:
        if options.output is None and not (Path(options.model) / "export").is_dir():
            raise UserError(
                f"{options.model} is no run folder: say with --output where the figures go"
            )
        folder = options.output or Path(options.model) / name
        # what is not a number is null
        record = json.loads(json.dumps(measure(options)), parse_constant=lambda constant: None)
        heading = f"{title}: {options.model}"
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{name}.json", record)
        blocks = [f"# {markdown_text(heading)}", *lines(record)]
        write_text(folder / f"{name}.md", "\n\n".join(blocks) + "\n")
        page = Page(heading)
        add(page, record)
        page.write(folder / f"{name}.html")
        log(f"{name}: {folder / name}.html")
        return 0

    return status_of(work)

"""Figures about one network as files of their own: JSON, Markdown and a page."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.pages.markdown import markdown_text
from benchmarks.results.run_folder import Json
from electrify.page.page import Page
from electrify.stage.folder import write_json, write_text
from electrify.system.progress import log


def output_folder(model: str, output: Path | None, name: str) -> Path:
    """The folder given, else `name` in the run folder; `ValueError` where neither is known."""
    if output is None and not (Path(model) / "export").is_dir():
        raise ValueError(f"{model} is no run folder: say with --output where the figures go")
    return output or Path(model) / name


def write_figures(
    folder: Path,
    name: str,
    title: str,
    record: Json,
    add: Callable[[Page, Json], None],
    lines: Callable[[Json], Sequence[str]],
) -> None:
    """Write `<name>.json`, `.md` and `.html` into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", record)
    blocks = [f"# {markdown_text(title)}", *lines(record)]
    write_text(folder / f"{name}.md", "\n\n".join(blocks) + "\n")
    page = Page(title)
    add(page, record)
    page.write(folder / f"{name}.html")
    log(f"{name}: {folder / name}.html")

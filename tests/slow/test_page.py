"""The page of the shipped encoder: its tokens are those of Python, and a person can use it.

npm and the network are needed, and for the session a browser that runs here (CHROME_PATH, or on
Linux the one that npm brings).
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from transformers import AutoTokenizer

from benchmarks.analysis.inspect import read
from benchmarks.analysis.page import SOURCE
from benchmarks.analysis.reader import open_reader
from electrify.cli import main

MODEL = "model/shipped/ko-modern/discriminator"
HERE = Path(__file__).parent / "page"
SENTENCE = "정말 재미있게 봤습니다. 배우들의 연기을 보고 감동했어요."
ROUNDS = 10_000  # lines
# from which made-up lines are drawn: ranges of code points, some marks of Korean chat, white space
RANGES = (
    *((0x20, 0x7F), (0xA0, 0x180), (0x370, 0x400), (0x400, 0x460), (0x5D0, 0x5EB), (0x620, 0x64B)),
    *((0x905, 0x93A), (0xE01, 0xE3B), (0x1100, 0x1200), (0x2010, 0x2050), (0x3001, 0x3020)),
    *((0x3041, 0x3097), (0x3131, 0x318F), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4), (0xFF01, 0xFF61)),
    *((0x1F300, 0x1F600), (0x300, 0x370), (0x200B, 0x2010), (0x9, 0xE), (0xFE0F, 0xFE10)),
)

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Node modules with what drives a browser; half a gigabyte that does not stay."""
    folder = tmp_path_factory.mktemp("modules")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCE / name, folder)
    words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    if subprocess.run(words, cwd=folder, capture_output=True).returncode:
        pytest.skip("npm ci failed, as it does without a network")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def page(modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "page"
    assert main(["page", MODEL, "--output", str(folder)]) == 0
    return folder


def made_up(rng: random.Random) -> str:
    """A line of characters of all kinds, most of them Korean."""
    kinds = [rng.choice((*RANGES, *[(0xAC00, 0xD7A4)] * 20)) for _ in range(rng.randrange(1, 80))]
    letters = [chr(rng.randrange(*kind)) for kind in kinds]
    return "".join(c + " " * (rng.random() < 0.2) for c in letters)


def test_tokens_are_those_of_python(page: Path, rounds: int, rng: random.Random):
    files = Path("pipeline/sample").glob("*.*")
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    lines += [made_up(rng) for _ in range(rounds)]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    words = ["node", str(HERE / "encode.mjs"), str(page)]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    found = [json.loads(ids) for ids in done.stdout.splitlines()]
    wanted = AutoTokenizer.from_pretrained(MODEL)(lines, add_special_tokens=False, verbose=False)
    pairs = zip(lines, found, wanted["input_ids"], strict=True)
    assert [line for line, a, b in pairs if a != b] == []


@pytest.fixture
def served(page: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(page))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def session(modules: Path) -> Callable[[str], dict[str, Any]]:
    def run(url: str) -> dict[str, Any]:
        words = ["node", str(HERE / "session.mjs"), str(modules), url, SENTENCE]
        here = os.environ | {"TMPDIR": str(modules)}  # where the browser is unpacked
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=here)
        if "Failed to launch the browser" in done.stderr:
            pytest.skip(f"no browser runs here: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen

    return run


@pytest.mark.parametrize("is_served", [False, True])
def test_a_person_types(is_served: bool, page: Path, served: str, session):
    """Opened from the disk, and from a host that sends files and no special header."""
    root = served if is_served else page.as_uri()
    seen = session(served if is_served else f"{root}/index.html")
    assert not seen["errors"]
    assert all(url.startswith((root, "data:", "blob:")) for url in seen["requests"])
    assert seen["title"] == "Replaced words: ko-modern/discriminator"
    assert seen["first"] == ["연기을"]
    assert seen["empty"] == "Type a sentence."
    assert seen["status"] == "1 of 9 words looks replaced."
    assert seen["marked"] == ["연기을"]
    assert seen["focused"] == "detail-title"
    assert len(seen["proposals"]) == 5
    assert len(seen["effects"]) == 5
    assert seen["closed"]
    assert seen["returned"] == "marked"
    assert seen["mended"] == "0 of 9 words look replaced."
    assert seen["text"] == SENTENCE.replace("연기을", seen["proposals"][0])
    assert seen["korean"] == "단어 9개 가운데 바뀐 것 같은 단어가 없습니다."
    assert seen["lang"] == "ko"
    assert seen["untranslated"] == 0
    assert seen["width"] <= 390  # nothing to scroll sideways on a phone
    assert seen["nameless"] == []
    reader = open_reader(MODEL)
    words = read(reader, SENTENCE).words
    assert [text for text, _ in seen["words"]] == [word.text for word in words]
    # int8 against single precision
    wanted = [word.probability for word in words]
    assert [p for _, p in seen["words"]] == pytest.approx(wanted, abs=0.05)
    wanted = [word.probability for word in read(reader, f"{SENTENCE} " * 30).words]
    assert seen["long"] == pytest.approx(wanted, abs=0.1)

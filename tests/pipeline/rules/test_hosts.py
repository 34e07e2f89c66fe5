"""Documents of listed hosts are removed, and of no other."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.rules.hosts import blocked_host, write_hosts
from tests.pipeline.builders import clean_afresh, config_of, documents, removed, sentence
from tests.pipeline.sources.reading import write_rows

LIST = "# of casinos\ncasino.example\n0.0.0.0 ads.kr\nhttps://www.bad.co.kr/path\n\nxn--o39an51b2re.kr.\n"
LIST += "*.bets.example\n||spam.example^\nhttp://[bad\n"


@pytest.fixture
def hosts(tmp_path: Path) -> np.ndarray:
    (tmp_path / "list").write_text(LIST, encoding="utf-8")
    write_hosts(tmp_path / "list", tmp_path / "index")
    return np.load(tmp_path / "index")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://casino.example/a?b=c", "casino.example"),
        ("http://WWW.Casino.Example:8080", "casino.example"),
        ("https://vip.play.casino.example/", "casino.example"),
        ("casino.example/a", "casino.example"),
        ("//casino.example", "casino.example"),
        ("www.casino.example", "casino.example"),
        ("https://a.bets.example/", "bets.example"),
        ("https://spam.example/", "spam.example"),
        ("https://notcasino.example/", None),
        ("https://example/", None),
        ("https://sub.ads.kr", "ads.kr"),
        ("https://bad.co.kr", "bad.co.kr"),
        ("https://co.kr", None),
        ("https://xn--o39an51b2re.kr/", "xn--o39an51b2re.kr"),
        ("https://a.kr/casino.example", None),
        ("http://[broken", None),
        ("", None),
        (None, None),
    ],
)
def test_a_host_and_what_lies_below_it_are_found(hosts, url, name):
    assert blocked_host(url, hosts) == name


def test_a_list_without_a_host_is_refused(tmp_path):
    (tmp_path / "list").write_text("# nothing\n", encoding="utf-8")
    for name in ("list", "none"):
        with pytest.raises(ValueError, match=rf"clean\.blocked_hosts = .*{name}"):
            write_hosts(tmp_path / name, tmp_path / "index")


def test_documents_of_listed_hosts_are_removed(tmp_path, caplog):
    (tmp_path / "list").write_text(LIST, encoding="utf-8")
    urls = ("https://casino.example/1", "https://good.example/1", None)
    rows = [{"text": sentence(number), "url": url} for number, url in enumerate(urls)]
    write_rows(tmp_path / "a.jsonl", "jsonl", rows)
    config = config_of(tmp_path, [tmp_path / "a.jsonl"], blocked_hosts=str(tmp_path / "list"))
    folder = clean_afresh(config)
    assert [row["text"] for row in documents(folder)] == [sentence(1), sentence(2)]
    (gone,) = removed(folder)
    assert (gone["reason"], gone["detail"]) == ("blocked_host", "casino.example")
    assert "1 line(s) name no host and match nothing, the first is line 9" in caplog.text

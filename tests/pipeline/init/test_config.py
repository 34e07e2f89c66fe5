"""Configs for text that nobody has described: valid, sized by the text, never written over."""

import json
import shlex
from pathlib import Path

import pytest

from electrify.cli import main
from electrify.config.load import load_config
from pipeline.init.config import init
from pipeline.sources.files import check_inputs
from tests.pipeline.builders import ENGLISH, KOREAN
from tests.pipeline.sources.reading import write_files, write_zip


def config_of(folder, text, num_rows=200):
    folder.mkdir()
    rows = [json.dumps({"body": f"{text} {number}"}) for number in range(num_rows)]
    (folder / "a.jsonl").write_text("\n".join(rows))
    path = folder.parent / "configs" / f"{folder.name}.toml"  # a folder that is not there
    lines = init(str(folder), str(path))
    config = load_config(path)
    check_inputs(config.clean)
    assert f"electrify validate {shlex.quote(str(path))}" in lines[-1]
    return config, "\n".join(lines)


def test_little_korean_resumes_from_the_shipped_encoder(tmp_path):
    config, printed = config_of(tmp_path / "My texts", KOREAN)
    assert config.name == "my-texts"
    assert config.pretrain.initial_model == config.vocab.extend
    assert config.export.licence == "cc-by-sa-4.0"  # that of the encoder, which asks to share alike
    assert config.vocab.pretokenizer == "kiwi"
    assert "text in 'body'" in printed
    assert "about 200 documents" in printed


@pytest.mark.parametrize(
    ("num_tokens", "num_layers", "num_steps"),
    [
        (10_000_000, 4, 4 * 10_000_000 / (16 * 128)),
        (400_000_000, 12, 4 * 400_000_000 / (128 * 128)),
        (10**12, 12, 500_000),
    ],
)
def test_sizes_and_steps_follow_the_amount_of_text(
    tmp_path, monkeypatch, num_tokens, num_layers, num_steps
):
    monkeypatch.setattr("pipeline.init.config.BYTES_A_TOKEN", 200 * len(ENGLISH) / num_tokens)
    config, _ = config_of(tmp_path / "en", ENGLISH)
    assert (config.pretrain.initial_model, config.vocab.pretokenizer) == (None, "whitespace")
    assert config.export.licence is None
    assert (config.vocab.size, config.pretrain.architecture) == ("auto", "modern")
    assert config.pretrain.num_hidden_layers == num_layers
    assert config.pretrain.num_steps == pytest.approx(num_steps, rel=0.05)


def test_runs_of_texts_with_other_letters_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = "뉴스", "新闻", "小说", "1 书", "1 报"
    write_files(tmp_path, {f"{name}/a.txt": f"{ENGLISH}\n\n{ENGLISH}" for name in folders})
    for folder, output in (("뉴스", "x 1.toml"), *((name, None) for name in folders)):
        init(folder, output)
    names = ["1", "1-2", "my-text", "my-text-2", "nyuseu", "x 1"]
    assert sorted(path.stem for path in tmp_path.glob("*.toml")) == names
    outputs = [Path(load_config(f"{name}.toml").output_dir).name for name in names]
    assert outputs == [*names[:-1], "x-1"]


def test_text_that_is_half_korean_is_cut_into_korean_words(tmp_path):
    (tmp_path / "mix.txt").write_text(f"{ENGLISH * 2}\n\n{KOREAN}\n\n" * 20)
    init(str(tmp_path / "mix.txt"), str(tmp_path / "mix.toml"))
    config = load_config(tmp_path / "mix.toml")
    (source,) = config.clean.sources
    assert (source.language, source.other_languages) == ("en", ("ko",))
    assert config.vocab.pretokenizer == "kiwi"


def test_a_table_with_labels_is_for_a_classifier(tmp_path):
    table = tmp_path / "my tickets.csv"
    table.write_text("text,label\n" + "배송이 늦었습니다,배송\n환불해 주십시오,환불\n" * 3, "utf-8")
    lines = init(str(table), str(tmp_path / "tickets.toml"))
    assert any(f"--own-task '{table}' --output" in line for line in lines)
    write_zip(tmp_path / "a.zip", {"b.csv": table.read_bytes()})
    lines = init(str(tmp_path / "a.zip"), str(tmp_path / "packed.toml"))
    assert not any("--own-task" in line for line in lines)


def test_a_file_that_is_there_stays_and_a_folder_without_text_names_what_is_read(tmp_path, capsys):
    (tmp_path / "texts").mkdir()
    target = tmp_path / "my.toml"
    words = ["init", str(tmp_path / "texts"), "--output", str(target)]
    (tmp_path / "texts/a.hwp").write_bytes(b"x")
    assert main(words) == 1
    assert "hwp5txt" in capsys.readouterr().err
    assert not target.exists()
    target.write_text("mine")
    assert main([*words[:-1], str(target / "x.toml")]) == 1
    assert "my.toml is a file" in capsys.readouterr().err
    (tmp_path / "texts/a.txt").write_text(f"{KOREAN}\n\n{KOREAN}")
    assert main(words) == 1
    assert "is not overwritten" in capsys.readouterr().err
    assert target.read_text() == "mine"

#!/usr/bin/env bash
# Minutes on a lent GPU host that no registry reaches: from raw text to encoders in fp16, ten minutes a run.
#
#   bash tools/gpu_minutes.sh pack CONFIG VOCAB PARTS        here: raw text, benchmarks and vocabulary of a config, and the
#                                                            wheels that the host lacks, as PARTS/1, PARTS/2 ... of 30 MB
#   bash tools/gpu_minutes.sh take PARTS/N                   there, for each part: puts all where `train` looks
#   bash tools/gpu_minutes.sh train CONFIG OUT [--set ...]   there: every stage but scores. OUT gets logs, metrics, seconds
#                                                            by stage, and the networks in pieces of 15 MB
#   bash tools/gpu_minutes.sh speed OUT                      there: what PERFORMANCE.md lists
#
# VOCAB is the folder of an earlier train-vocab, whose pieces are kept, as learning them needs kiwi. The pieces of the
# networks are joined by `cat networks.tar.* | tar x`. A run ends after LIMIT seconds (540), with the checkpoint that it
# has; HELD is a folder outside the checkout (/tmp/gpu-minutes), PYTHON another python3.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3} held=${HELD:-/tmp/gpu-minutes} limit=${LIMIT:-540}
export PYTHONPATH="$PWD:$held/site" TORCHINDUCTOR_CACHE_DIR=$held/inductor

# of pyproject.toml, what the image of the host does not have and these stages import
wheels=(apache-beam annotated-types beartype cffi cryptography dill fastavro fasteners ftfy httplib2 jsonpickle langcodes objsize
    opentelemetry-api orjson proto-plus py3langid pycld2 pycparser pydantic pydantic-core pymongo pytz typing-inspection wcwidth zstandard)

pack() {  # CONFIG VOCAB PARTS
    mkdir -p "$3/wheels"
    "$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp --abi cp312 \
        --abi abi3 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 --platform any -c constraints.txt -d "$3/wheels" "${wheels[@]}"
    "$python" - "$@" <<'PY'
import shutil, sys
from glob import glob
from pathlib import Path

from benchmarks.tasks.texts import _evaluation_files, _find_tasks
from benchmarks.tasks.registry import TASKS
from electrify.config.load import load_config

config, vocab, parts = load_config(sys.argv[1]).clean, Path(sys.argv[2]), Path(sys.argv[3])
folder = Path(config.decontaminate_data_dir or ".")
names = [path for source in config.sources for path in sorted(glob(source.path))]
for name in config.decontaminate_against:
    tasks = _find_tasks(name, [folder])
    names += [str(p) for task in tasks for _, p in _evaluation_files(TASKS[task], folder)] or glob(name)
files = [(Path(name), Path("data", name.removeprefix("../"))) for name in dict.fromkeys(names)]
files += [(path, Path(path.name)) for path in (parts / "wheels").glob("*.whl")]
files += [(vocab / name, Path("vocab", name)) for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt")]
part = size = 0
for path, target in files:
    if not part or size + path.stat().st_size > 30e6:
        part, size = part + 1, 0
    size += path.stat().st_size
    (parts / str(part) / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, parts / str(part) / target)
shutil.rmtree(parts / "wheels")
print(f"{len(files)} files in {part} parts")
PY
}

take() {  # PART
    mkdir -p "$held"
    if [ -d "$1/data" ]; then cp -r "$1/data/." ..; fi
    if [ -d "$1/vocab" ]; then cp -r "$1/vocab" "$held/"; fi
    if compgen -G "$1/*.whl" >/dev/null; then
        "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$held/site" "$1"/*.whl
    fi
}

train() {  # CONFIG OUT [--set ...]
    local config=$1 out=$2 run=$held/runs/$(basename "$1" .toml) stage
    shift 2
    mkdir -p "$out"
    for stage in clean train-vocab encode pretrain export; do
        echo "== $stage after $SECONDS s"
        timeout -k 20 "$((limit - SECONDS))" "$python" -m electrify "$stage" "$config" --set output_dir="$run" \
            --set vocab.extend="$held/vocab" --set vocab.size=auto --set vocab.pretokenizer=whitespace "$@" 2>&1 |
            tee "$out/$stage.log" | tail -n 4 || echo "$stage: status $?"
    done
    "$python" - "$run" <<'PY' | tee "$out/stages.csv"
import json, sys
from pathlib import Path

print("stage,seconds,peak_memory_mb,bytes")
for stage in ("clean", "vocab", "shards", "pretrain", "export"):
    if (path := Path(sys.argv[1], stage, "manifest.json")).exists():
        of = json.loads(path.read_text())
        print(stage, of["seconds"], of["peak_memory_mb"], sum(f["bytes"] for f in of["files"].values()), sep=",")
PY
    cp "$run"/clean/report.json "$run"/pretrain*/metrics.jsonl "$out" || echo "no report or metrics"
    tar cf - -C "$run" export | split -b 15M - "$out/networks.tar."
}

speed() {  # OUT
    mkdir -p "$1"
    "$python" -m tools.throughput finetune --device cuda --peer --json "$1/finetune.json" | tail -n 20
    for size in modern-small modern-base small base; do
        "$python" -m tools.throughput pretrain --device cuda --size "$size" --json "$1/$size.json" | tail -n 8
    done
    "$python" -m tools.throughput pretrain --device cuda --precision fp16 --json "$1/fp16.json" | tail -n 8
    "$python" -m pytest -q -p no:cacheprovider tests/cuda/test_host.py tests/cuda/test_cuda.py
}

verb=${1:?pack, take, train or speed}
shift
"$verb" "$@"

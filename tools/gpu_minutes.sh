#!/usr/bin/env bash
# Minutes on a GPU: what PERFORMANCE.md lists, what has not been measured yet first, each with a limit of its own.
#
#   bash tools/gpu_minutes.sh FOLDER [SECONDS]
#
# In a checkout, with Python packages as PERFORMANCE.md says (PYTHON names another python3). FOLDER gets a log
# and a JSON file of each step; a step that fails or takes too long stops no other, and the last lines say how each
# ended. Nothing is started that the SECONDS, 540 if not given, have no room for.
set -u
cd "$(dirname "$0")/.."
folder=${1:?give a folder for what is measured} seconds=${2:-540} python=${PYTHON:-python3}
mkdir -p "$folder"
endings=()

step() {  # NAME LIMIT COMMAND...
    local name=$1 limit=$2 begun=$SECONDS
    shift 2
    if ((SECONDS + limit > seconds)); then
        endings+=("$name: not started, its $limit seconds would end after $seconds")
        return
    fi
    echo "== $name: $*"
    timeout -k 10 "$limit" "$@" 2>&1 | tee "$folder/$name.log" | tail -n 40
    endings+=("$name: status ${PIPESTATUS[0]} after $((SECONDS - begun)) s")
}

step finetune 110 "$python" -m tools.throughput finetune --device cuda --peer --json "$folder/finetune.json"
step tests 170 "$python" -m pytest -q -p no:cacheprovider tests/cuda/test_host.py tests/cuda/test_cuda.py tests/benchmarks/test_finetune_cuda.py
step speed-modern 90 "$python" -m tools.throughput pretrain --device cuda --size modern-small --json "$folder/speed-modern.json"
step speed-fp16 60 "$python" -m tools.throughput pretrain --device cuda --precision fp16 --json "$folder/speed-fp16.json"
step speed-modern-base 150 "$python" -m tools.throughput pretrain --device cuda --size modern-base --json "$folder/speed-modern-base.json"
step speed-small 200 "$python" -m tools.throughput pretrain --device cuda --size small --peer --json "$folder/speed-small.json"
printf '%s\n' "${endings[@]}" | tee "$folder/endings.txt"

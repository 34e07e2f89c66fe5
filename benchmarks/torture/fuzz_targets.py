"""Every reader that is fuzzed, by name."""

from benchmarks.torture import (
    fuzz_artifacts,
    fuzz_config,
    fuzz_corpus,
    fuzz_results,
    fuzz_tasks,
    fuzz_vocab,
)
from benchmarks.torture.fuzz_target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (fuzz_corpus, fuzz_config, fuzz_vocab, fuzz_tasks, fuzz_artifacts, fuzz_results)
    for target in module.TARGETS
}

"""What a run reads of each language: readers of its phases within the budgets, and a table of them.

A budget is of the whole run. Each phase takes what its mixture gives until a budget is used up; the
others are read in its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from electrify.config.run import RunConfig
from electrify.system.outcome import UserError, nearest
from electrify.system.progress import aligned
from model.plan import Phase, phases_of
from vocab.shards.files import TokenShards
from vocab.shards.reader import SequenceReader


class PhaseReader(NamedTuple):
    phase: Phase
    reader: SequenceReader

    @property
    def num_sequences(self) -> int:
        """That the phase reads."""
        return self.phase.batch_size * self.phase.num_steps

    def tokens(self) -> dict[str, float]:
        """Positions of each language that the phase reads, padding included."""
        pairs = zip(self.reader.languages, self.reader.schedule.fractions, strict=True)
        positions = self.num_sequences * self.phase.sequence_length
        return {language: fraction * positions for language, fraction in pairs}

    def passes(self) -> dict[str, float]:
        return self.reader.passes(self.num_sequences)


def phase_readers(config: RunConfig, shards: TokenShards) -> list[PhaseReader]:
    """Of the train split, in the order of the phases. `UserError` for a language that is not there,
    and where the budgets do not suffice."""
    mixture, readers = config.pretrain.mixture, list[PhaseReader]()
    for phase in phases_of(config.pretrain):
        options = phase.options(config.pretrain)
        one = PhaseReader(phase, SequenceReader(shards, "train", options, config.seed))
        _check_names(one.phase, one.reader.languages)
        one.reader.limit(_limits(one, readers, mixture.max_tokens, mixture.max_epochs))
        readers.append(one)
    return readers


def _limits(
    one: PhaseReader,
    before: Sequence[PhaseReader],
    max_tokens: Mapping[str, int],
    max_epochs: Mapping[str, float],
) -> dict[str, float]:
    """The fractions of the positions of a phase that are left of the budgets."""
    sizes = dict(zip(one.reader.languages, one.reader.schedule.sizes, strict=True))
    limits: dict[str, float] = {}
    for language, tokens in max_tokens.items():
        left = max(0.0, tokens - sum(of.tokens()[language] for of in before))
        limits[language] = left / one.phase.sequence_length / one.num_sequences
    for language, epochs in max_epochs.items():
        left = max(0.0, epochs - sum(of.passes()[language] for of in before))
        of_text = left * sizes[language] / one.num_sequences
        limits[language] = min(limits.get(language, of_text), of_text)
    return limits


def _check_names(phase: Phase, languages: Sequence[str]) -> None:
    for option in ("weight", "max_tokens", "max_epochs"):
        for name in getattr(phase.mixture, option):
            if name not in languages:
                raise UserError(
                    f"pretrain.mixture.{option}: the shards have no {name!r}"
                    f"{nearest(name, languages)} (they have {', '.join(languages)})"
                )


def mixture_table(readers: Sequence[PhaseReader]) -> Iterator[str]:
    """A line for each language: its sequences, its part of each phase, and what the run reads."""
    columns: list[Sequence[str]] = [("", *readers[0].reader.languages)]
    for one in readers:
        schedule, phase = one.reader.schedule, one.phase
        head = (
            f"steps {phase.first_step:,}-{phase.end:,}, temperature {phase.mixture.temperature:g}"
        )
        columns.append((head, *(f"{fraction:.2%}" for fraction in schedule.fractions)))
    languages = readers[0].reader.languages
    tokens = [sum(one.tokens()[language] for one in readers) for language in languages]
    passes = [sum(one.passes()[language] for one in readers) for language in languages]
    sizes = readers[-1].reader.schedule.sizes
    columns.append(("sequences", *(f"{size:,}" for size in sizes)))
    columns.append(("tokens read", *(f"{of:,.0f}" for of in tokens)))
    columns.append(("epochs", *(f"{of:.2f}" for of in passes)))
    yield from aligned([*zip(*columns, strict=True)])

"""Is the fast path's loss curve one that the plain path could have had?

The plain path is the step as it is written: nothing compiled, nothing recorded. Both train the same
weights on the same text, masks and samples' draws, once a seed. Dropout is drawn otherwise by the
compiler, so curves part; how far they part by that alone the plain path shows, which trains each
seed twice, with dropout drawn anew. All of its runs together are the band.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from benchmarks.throughput.pretrain_data import Pool
from electrify.config.pretrain import PretrainConfig
from electrify.system.progress import log
from model.batch import Noise
from model.electra import ElectraPretrainer
from model.train.data import noise_key
from model.train.optim import make_optimizers
from model.train.replay import FastStep
from model.train.step import Step
from model.watch.metrics import MetricsWindow

SEEDS = (0, 1, 2)
WINDOW = 25  # steps a point of a smoothed curve
_OTHER_DROPOUT = 1000  # added to a seed
_LAST = 4  # windows that count as the end
Curve = list[float]


@dataclass(frozen=True)
class Band:
    """Losses of every step, by path and seed: the sum of all terms, as trained."""

    about: str
    num_steps: int
    how: str  # the fast path's choices
    plain: list[Curve]
    other_dropout: list[Curve]  # the plain path again
    fast: list[Curve]
    peer: list[Curve] = field(default_factory=list)

    def smoothed(self, curve: Curve) -> Curve:
        """Means of `WINDOW` steps."""
        last = self.num_steps - self.num_steps % WINDOW
        return [statistics.fmean(curve[i : i + WINDOW]) for i in range(0, last, WINDOW)]

    def limits(self) -> tuple[Curve, Curve]:
        """Least and greatest of the plain path's runs at each point of their smoothed curves."""
        curves = [self.smoothed(curve) for curve in (*self.plain, *self.other_dropout)]
        return [min(of) for of in zip(*curves, strict=True)], [
            max(of) for of in zip(*curves, strict=True)
        ]

    def share_inside(self, curves: Sequence[Curve]) -> float:
        """Share of the points at which the mean of these curves lies within the limits.

        Of curves like the plain path's a share of 0.87 to 0.99 is to be expected, the more the less
        of the spread is dropout's; 0.95 with the spreads of the model for the CPU (by simulation).
        """
        means = [statistics.fmean(of) for of in zip(*map(self.smoothed, curves), strict=True)]
        inside = [low <= mean <= high for low, mean, high in zip(*self._around(means), strict=True)]
        return statistics.fmean(inside)

    def _around(self, means: Curve) -> tuple[Curve, Curve, Curve]:
        low, high = self.limits()
        return low, means, high

    def figures(self) -> dict[str, float]:
        """What the curves come to, in units of the loss."""
        plain = self._ends([*self.plain, *self.other_dropout])
        found = {
            "share_of_points_inside_the_band": self.share_inside(self.fast),
            "mean_absolute_difference_fast_to_plain": _difference(self.fast, self.plain),
            "mean_absolute_difference_by_other_dropout": _difference(
                self.other_dropout, self.plain
            ),
            "mean_absolute_difference_between_seeds": _difference(
                self.plain, self.plain[1:] + self.plain[:1]
            ),
            "last_100_steps_plain": statistics.fmean(plain),
            "last_100_steps_plain_sd_over_runs": statistics.stdev(plain),
            "last_100_steps_fast": statistics.fmean(self._ends(self.fast)),
        }
        if self.peer:
            found["last_100_steps_peer"] = statistics.fmean(self._ends(self.peer))
        return found

    def _ends(self, curves: Sequence[Curve]) -> list[float]:
        return [statistics.fmean(self.smoothed(curve)[-_LAST:]) for curve in curves]


def _difference(some: Sequence[Curve], others: Sequence[Curve]) -> float:
    """Mean over steps and pairs of the absolute difference."""
    return statistics.fmean(
        abs(a - b)
        for one, other in zip(some, others, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def measure_band(
    config: PretrainConfig,
    pool: Pool,
    device: torch.device,
    num_steps: int,
    with_peer: bool = False,
) -> Band:
    """Train on both paths; `config` says how the fast one runs."""
    plain_config = config.model_copy(update={"compile": "off", "cuda_graph": "off"})
    plain, other, fast = [], [], []
    how = ""
    for seed in SEEDS:
        log(f"{num_steps} steps as written, again with other dropout, and fast: seed {seed}")
        plain.append(_train(plain_config, pool, device, num_steps, seed)[0])
        other.append(_train(plain_config, pool, device, num_steps, seed, _OTHER_DROPOUT)[0])
        curve, how = _train(config, pool, device, num_steps, seed)
        fast.append(curve)
    peer = [_train_peer(config, pool, device, num_steps, seed) for seed in SEEDS * with_peer]
    batch_size, length = pool.shape
    about = (
        f"{config.num_hidden_layers} layers of width {config.hidden_size}, {batch_size} x {length} "
        f"tokens a step of {pool.name}, {pool.vocab_size:,} pieces"
    )
    return Band(about, num_steps, how, plain, other, fast, peer)


def _train(
    config: PretrainConfig,
    pool: Pool,
    device: torch.device,
    num_steps: int,
    seed: int,
    other_dropout: int = 0,
) -> tuple[Curve, str]:
    """Losses of each step, and how it was run."""
    model = _model(config, pool, seed).to(device)
    window = MetricsWindow([pool.name], device)
    step = FastStep(model, make_optimizers(model, config), config, device, window)

    def loss_of_step(number: int) -> Tensor:
        batch = pool.batch(number)
        rows, length = batch.input_ids.shape
        noise = Noise.draw(noise_key(seed, number), rows, length, pool.slots)
        batch = replace(batch, noise=noise).to(device)
        outputs, _ = step([batch], Step(number, seed + other_dropout))
        return outputs[0].loss()

    return _curve(loss_of_step, num_steps, device), step.how()


def _model(config: PretrainConfig, pool: Pool, seed: int) -> ElectraPretrainer:
    torch.manual_seed(seed)
    return ElectraPretrainer(config, pool.vocab_size, pool.special)


def _curve(loss_of_step: Callable[[int], Tensor], num_steps: int, device: torch.device) -> Curve:
    losses = torch.zeros(num_steps, device=device)
    for number in range(num_steps):
        losses[number] = loss_of_step(number).detach()  # read at the end: a step waits for nothing
    return [float(loss) for loss in losses.cpu()]


def _train_peer(
    config: PretrainConfig, pool: Pool, device: torch.device, num_steps: int, seed: int
) -> Curve:
    """The plain peer's; it draws masks by itself."""
    from benchmarks.throughput.pretrain_peer import (
        PeerBatch,
        make_peer_optimizer,
        peer_of,
        peer_step,
    )

    log(f"{num_steps} steps of the peer, seed {seed}")
    peer = peer_of(_model(config, pool, seed)).to(device)
    optimizer = make_peer_optimizer(peer, config, fused=False)

    def loss_of_step(number: int) -> Tensor:
        batch = pool.batch(number).to(device)
        peer_batch = PeerBatch(batch.input_ids, batch.token_type_ids, batch.packed)
        return peer_step(peer, optimizer, peer_batch, config, pool.special, number)

    return _curve(loss_of_step, num_steps, device)

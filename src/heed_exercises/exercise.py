"""The exercises in the order of a course, each with its files and the random inputs of its check.

Sizes of inputs are all different, so that swapped axes cannot pass.
"""

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from typing import Any

import torch
from torch import Tensor, nn

from heed.errors import HeedError
from heed.options import did_you_mean
from heed.symbols import BOS, EOS, PAD

EXERCISE_FILES = Path(__file__).parent / "files"

Inputs = Iterator[tuple[str, tuple[Any, ...]]]
"""Arguments for an implementation, each with what is special about them: ("with padding", (scores, mask))."""


@dataclass(frozen=True)
class Exercise:
    """A function to write."""

    name: str
    """Of the function, of the student's file, and of the folder in `EXERCISE_FILES`."""
    results: tuple[str, ...]
    """A name for each value that the function returns."""
    draw_inputs: Callable[[], Inputs]
    """Draws from torch's generator."""

    def read(self, file: str) -> str:
        """Return the text of solution.py, mistakes.toml or hint.txt."""
        return (EXERCISE_FILES / self.name / file).read_text(encoding="utf-8")

    def heading(self) -> tuple[str, str]:
        """Return what the exercise teaches, and the paper: the first line of the solution."""
        match = re.match(r'"""(.+) \((.+)\)\."""', self.read("solution.py"))
        assert match
        return match[1], match[2]

    def skeleton(self) -> str:
        """Return the student's file: the solution without the body of its function."""
        lines = self.read("solution.py").splitlines()
        functions = (node for node in ast.parse(self.read("solution.py")).body if isinstance(node, ast.FunctionDef))
        body = next(node.body for node in functions if node.name == self.name)
        gap = f"    raise NotImplementedError  # write the body, then run: heed-exercise check {self.name}"
        lines[body[0].end_lineno : body[-1].end_lineno] = [gap]
        return "\n".join([*lines, ""])

    def solution(self) -> Callable[..., Any]:
        """Return the function of the solution."""
        return load(EXERCISE_FILES / self.name / "solution.py")[self.name]

    def parameters(self) -> list[str]:
        """Return the names of the function's parameters."""
        return list(inspect.signature(self.solution()).parameters)

    def mistakes(self) -> list[Callable[..., Any]]:
        """Return wrong implementations: changed solutions. The docstring of each explains its mistake."""
        found = []
        for explanation, changes in tomllib.loads(self.read("mistakes.toml")).items():
            source = self.read("solution.py")
            for right, wrong in changes.items():
                assert source.count(right) == 1, f"{right} is not one place of the solution"
                source = source.replace(right, wrong)
            names: dict[str, Any] = {}
            exec(source, names)
            names[self.name].__doc__ = explanation
            found.append(names[self.name])
        return found


def load(path: Path) -> dict[str, Any]:
    """Execute a Python file and return its names. Unlike an import, this leaves no trace."""
    return run_path(str(path), run_name=path.stem)


EXERCISES: dict[str, Exercise] = {}


def find(name: str) -> Exercise:
    """Return the exercise with this name, or raise a HeedError."""
    if name not in EXERCISES:
        close = did_you_mean(name, EXERCISES)
        raise HeedError(f"There is no exercise {name!r}{close}: `heed-exercise list` lists all.")
    return EXERCISES[name]


def exercise(*results: str) -> Callable[[Callable[[], Inputs]], Callable[[], Inputs]]:
    """Add an exercise whose results have these names. The decorated function has its name and draws its inputs."""

    def add(draw_inputs: Callable[[], Inputs]) -> Callable[[], Inputs]:
        name = draw_inputs.__name__
        EXERCISES[name] = Exercise(name, results, draw_inputs)
        return draw_inputs

    return add


def sizes(count: int) -> list[int]:
    """Return different sizes from 2 to 7."""
    return (torch.randperm(6)[:count] + 2).tolist()


def integer(low: int, high: int) -> int:
    """Return an integer from ``low`` to ``high``, both included."""
    return int(torch.randint(low, high + 1, ()))


def uniform(low: float, high: float) -> float:
    """Return a number between two others."""
    return low + (high - low) * float(torch.rand(()))


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    """Return a tensor from a normal distribution, with gradient."""
    return (scale * torch.randn(shape)).requires_grad_()


def padding_mask(B: int, T: int, S: int) -> Tensor:
    """Return the mask "B T S" of sentences of random lengths, each with at least one key and some padding."""
    lengths = torch.randint(1, S, (B,))
    return (torch.arange(S) < lengths[:, None])[:, None].expand(B, T, S).clone()


@exercise("score")
def luong_general() -> Inputs:
    B, T, S, D = sizes(4)
    yield "with random states", (normal(B, T, D), normal(B, S, D), normal(D, D))


@exercise("score")
def bahdanau_additive() -> Inputs:
    B, T, S, Q, D, A = sizes(6)
    yield "with random states", (normal(B, T, Q), normal(B, S, D), normal(A, Q), normal(A, D), normal(A))


@exercise("weights")
def masked_softmax() -> Inputs:
    B, T, S = sizes(3)
    mask = padding_mask(B, T, S)
    yield "without padding", (normal(B, T, S), torch.ones_like(mask))
    yield "with padding", (normal(B, T, S), mask)
    yield "with scores around 300", (normal(B, T, S, scale=300.0), mask)
    yield "with a query that has no key", (normal(B, T, S), mask & (torch.arange(T) > 0)[:, None])


@exercise("context", "weights")
def attend() -> Inputs:
    B, T, S, E, F = sizes(5)
    own_mask = (torch.rand(B, T, S) < 0.5) | (torch.arange(S) == 0)
    for case, mask in (
        ("without padding", torch.ones(B, T, S, dtype=torch.bool)),
        ("with padding", padding_mask(B, T, S)),
        ("with a different mask for each query", own_mask),
    ):
        yield case, (normal(B, T, E), normal(B, S, E), normal(B, S, F), mask)


@exercise("parts")
def split_heads() -> Inputs:
    B, N, H, E = sizes(4)
    yield "for a batch of sentences", (normal(B, N, H * E), H)


@exercise("vectors")
def merge_heads() -> Inputs:
    B, N, H, E = sizes(4)
    yield "for a batch of sentences", (normal(B, H, N, E),)


@exercise("vectors")
def sinusoidal_positions() -> Inputs:
    yield "for random sizes", (integer(5, 30), 2 * integer(3, 20))


@exercise("rotated")
def rotary_positions() -> Inputs:
    B, H, N, half = sizes(4)
    yield "from the first position on", (normal(B, H, N, 2 * half), 0)
    yield "from a later position on", (normal(B, H, N, 2 * half), integer(1, 30))


@exercise("h'", "c'")
def lstm_cell() -> Inputs:
    B, width, D = sizes(3)
    weights = normal(4 * D, width), normal(4 * D, D), normal(4 * D)
    yield "with random weights", (normal(B, width), normal(B, D), normal(B, D), *weights)


@exercise("states")
def input_feeding() -> Inputs:
    B, T, S, D, width = sizes(5)
    cell = nn.GRUCell(width + D, D)
    yield "with a GRU", (normal(B, T, width), normal(B, D), normal(B, S, D), cell, normal(D, 2 * D))


@dataclass(frozen=True)
class Decoder:
    """A small recurrent decoder."""

    embedding: nn.Embedding
    cell: nn.GRUCell
    output: nn.Linear

    def __call__(self, token: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the next token and the next state."""
        state = self.cell(self.embedding(token), state)
        return self.output(state), state


@exercise("loss")
def teacher_forcing() -> Inputs:
    B, T, vocab, (width, D) = 3, 5, 11, sizes(2)
    decoder = Decoder(nn.Embedding(vocab, width), nn.GRUCell(width, D), nn.Linear(D, vocab))
    for case, last in (("without padding", torch.full((B,), T - 1)), ("with padding", torch.randperm(T)[:B])):
        tokens, position = torch.randint(max(BOS, EOS, PAD) + 1, vocab, (B, T)), torch.arange(T)
        target = torch.where(position < last[:, None], tokens, PAD)
        target[position == last[:, None]] = EOS
        yield case, (target, decoder, normal(B, D))


@exercise("loss")
def label_smoothing() -> Inputs:
    N, V = sizes(2)
    for case, epsilon in (("without smoothing", 0.0), ("with smoothing", uniform(0.05, 0.4))):
        yield case, (normal(N, V), torch.randint(V, (N,)), epsilon)


@exercise("rate")
def warmup_schedule() -> Inputs:
    warmup, width = integer(100, 4000), 2 ** integer(6, 10)
    yield "during the warm-up", (integer(1, warmup - 1), warmup, width)
    yield "at the peak", (warmup, warmup, width)
    yield "after the warm-up", (integer(warmup + 1, 10 * warmup), warmup, width)


@exercise("score", "prefix", "token")
def beam_step() -> Inputs:
    B, K, V, beam = 3, 2, 9, 4
    for case, prefixes in (("at the first step", 1), ("with several prefixes", K)):
        possible = torch.randn(B, prefixes, V).index_fill(2, torch.tensor([PAD, BOS]), -torch.inf)
        yield case, (-5 * torch.rand(B, prefixes), possible.log_softmax(2), beam)


@exercise("score")
def length_penalty() -> Inputs:
    for case, alpha in (("without a penalty", 0.0), ("with a penalty", uniform(0.3, 2.0))):
        yield case, (uniform(-30, -1), integer(2, 60), alpha)


@exercise("penalty")
def brevity_penalty() -> Inputs:
    def words(*lengths: int) -> list[list[str]]:
        return [["word"] * length for length in lengths]

    short, long = integer(3, 6), integer(10, 20)
    references = words(short, long)
    yield "for short translations", (words(short - 1, long - 1), references)
    yield "for long translations", (words(short + 1, long + 4), references)
    yield "for a short translation and a long one", (words(short + 3, long - 5), references)
    yield "for empty translations", (words(0, 0), references)

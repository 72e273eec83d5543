"""What the checks of the exercises accept, refuse and explain."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from heed.errors import HeedError
from heed_exercises import EXERCISES, CheckError, check

MISTAKES = {
    f"{exercise.name}-{number}": (exercise.name, mistake)
    for exercise in EXERCISES.values()
    for number, mistake in enumerate(exercise.mistakes())
}
SEEDS = range(3)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_passes_and_can_be_written_otherwise(name: str) -> None:
    """In float64 it is not equal to the bit, and its results are still right."""
    solution = EXERCISES[name].solution()

    def rounded(*arguments: Any) -> Any:
        wide = solution(*(value.double() if is_real(value) else value for value in arguments))
        return tuple(map(narrow, wide)) if isinstance(wide, tuple) else narrow(wide)

    has_callable = any(callable(value) for value in next(iter(EXERCISES[name].draw_inputs()))[1])
    for seed in SEEDS:
        assert check(name, solution if has_callable else rounded, seed=seed)


def is_real(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def narrow(value: Any) -> Any:
    return value.float() if is_real(value) else value


@pytest.mark.parametrize(("name", "mistake"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_caught_and_explained(name: str, mistake: Callable[..., Any]) -> None:
    explanation = " ".join((mistake.__doc__ or "").split())
    for seed in SEEDS:
        with pytest.raises(CheckError) as caught:
            check(name, mistake, seed=seed)
        assert str(caught.value).endswith(f" (seed {seed}). {explanation}")


def test_every_exercise_has_its_files() -> None:
    assert len(EXERCISES) >= 15
    for exercise in EXERCISES.values():
        assert len(exercise.read("hint.txt")) > 40
        assert len(exercise.mistakes()) >= 2
        assert all(exercise.heading())
        assert exercise.solution().__doc__


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    return EXERCISES["attend"].solution()(query, key, value, mask)  # type: ignore[no-any-return]


def change(how: Callable[[Tensor, Tensor], Any]) -> Callable[..., Any]:
    return lambda *arguments: how(*attend(*arguments))


@pytest.mark.parametrize(
    ("implementation", "message"),
    [
        (change(lambda context, weights: context), r"^the number of results must be 2, not 1, with.* \(seed 7"),
        (change(lambda context, weights: (context.mT, weights)), r"^the shape of context must be .*, not \(\d,"),
        (change(lambda context, weights: (context, None)), "^weights must be a tensor, not NoneType, "),
        (change(lambda context, weights: (context.detach(), weights.detach())), "^the gradient of query.* not 0, "),
        (change(lambda context, weights: (context, weights + 1)), r"^weights\[0, 0, 0\] must be 0\.\d+, not 1\.\d+, "),
        (change(lambda context, weights: (context / 0, weights)), r"^context\[0, 0, 0\] must be .*, not -?inf, "),
    ],
    ids=["number", "shape", "type", "gradient", "values", "infinite"],
)  # fmt: skip
def test_the_property_that_fails_is_named(implementation: Callable[..., Any], message: str) -> None:
    with pytest.raises(CheckError, match=message):
        check("attend", implementation, seed=7)


def test_numbers_are_checked_with_their_arguments() -> None:
    with pytest.raises(
        CheckError, match=r"^score must be -\d.*, not 1, without a penalty, log_prob=-.*, alpha=0 \(seed 7"
    ):
        check("length_penalty", lambda log_prob, length, alpha: 1.0, seed=7)
    with pytest.raises(CheckError, match=r"^score must be a number, not str, "):
        check("length_penalty", lambda log_prob, length, alpha: "1")
    assert check("length_penalty", lambda *arguments: torch.tensor(EXERCISES["length_penalty"].solution()(*arguments)))


def test_inputs_are_new_unless_a_seed_repeats_them() -> None:
    seen = []

    def look(query: Tensor, states: Tensor, W: Tensor) -> Tensor:
        seen.append([*query.shape, query.sum().item()])
        query.data.zero_()  # changes nothing for the comparison
        return query @ W @ states.mT

    torch.manual_seed(5)
    state = torch.get_rng_state()
    for seed in (None, None, 11, 11, -11):
        with pytest.raises(CheckError):
            check("luong_general", look, seed=seed)
    first = [shown for number, shown in enumerate(seen) if number == 0 or shown != seen[number - 1]]
    assert len(first) == 4  # 11 twice
    assert torch.equal(torch.get_rng_state(), state)


def test_an_unknown_exercise_is_refused() -> None:
    with pytest.raises(HeedError, match=r"There is no exercise 'atend' \(did you mean attend"):
        check("atend", attend)

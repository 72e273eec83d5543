"""The random life cycles of scripts/soak: their table is complete, they hold, and they notice what is wrong."""

import re
import sys
from pathlib import Path

import pytest
from soak.lives.life import FEATURES, TABLE, Case, known_options, option, unknown_options
from soak.lives.stages import STAGES

from tests import forkserver
from tests.reliability.options import choices, options

pytestmark = pytest.mark.reliability

ROOT = Path(__file__).resolve().parents[2]
EXCLUDED = {name.strip() for names in TABLE["excluded"] for name in names.split(",")}
FIXED = (
    "transformer: mixture, ema, positions_relative | kill | 1",
    "transformer: bpe_dropout, norm_rms, average_last | kill | 2",
    "transformer: both_directions, bf16 | translate, serve | 3",
    "rnn: attention_additive, scheduled_linear, joint_off | kill | 4",
    "rnn: guided, r_drop, sgd | processes | 5",
    "transformer: positions_rotary, untied, json_scores | export, align | 6",
)
"""One, two or no other training each: forty seconds of a CPU in all."""


def test_every_option_of_conf_is_in_the_table_or_excluded_with_a_reason() -> None:
    words = [word for part in ("base", "transformer", "rnn", "any") for words in TABLE[part].values() for word in words]
    named, chosen = {option(word) for word in words} | EXCLUDED, set(words) | EXCLUDED
    missing = [each.name for each in options() if not any(f"{each.name}.".startswith(f"{name}.") for name in named)]
    for group, names in choices().items():
        if group not in EXCLUDED and not group.startswith("data_"):  # the defaults of a corpus
            missing += [f"{group}={name}" for name in names if f"{group}={name}" not in chosen and name != "default"]
    assert not missing
    known = [f"{name}." for name in (*known_options(), *choices())]
    assert not [word for word in words if not any(name.startswith(f"{option(word)}.") for name in known)]


def test_the_features_of_a_case_can_be_read_and_replace_the_base() -> None:
    for text in FIXED:
        case = Case.parse(text)
        assert str(case) == text
        assert set(case.stages) <= set(STAGES)
        names = [option(word) for word in case.overrides(Path("corpus"))]
        assert len(names) == len(set(names))
    with pytest.raises(ValueError, match="no feature nothing"):
        Case.parse("rnn: nothing | kill | 1")
    assert {"mixture", "ema"} <= set(FEATURES)


def test_a_message_may_name_only_options_that_exist() -> None:
    assert unknown_options("raise trainer.max_steps= or set model/positions=rotary; a.en=3, see conf/x=1") == []
    assert unknown_options("raise trainer.maximal_steps=3") == ["trainer.maximal_steps"]


def soak(*words: str) -> str:
    done = forkserver.run([sys.executable, "-m", "scripts.soak", *words], cwd=ROOT, capture_output=True, timeout=1800)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
    return str(done.stdout.decode())


@pytest.mark.slow
def test_six_life_cycles_hold() -> None:
    assert re.search("^6 cases, 0 failed", soak("pairs", *(f"--case={case}" for case in FIXED)), re.MULTILINE)


@pytest.mark.full
def test_sixty_new_life_cycles_hold(tmp_path: Path) -> None:
    soak("pairs", "--cases=60", f"--record={tmp_path}/lives.jsonl")


@pytest.mark.full
def test_all_damages_are_named() -> None:
    soak("text", "--pairs=20")


@pytest.mark.full
def test_broken_lines_are_found() -> None:
    soak("mutants", "--only=masks", "--only=resume_state")

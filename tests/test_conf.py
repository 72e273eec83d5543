"""Every preset and every choice of a config group composes and builds; typos are errors."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import instantiate
from omegaconf import OmegaConf

from heed.launch.compose import Command
from heed.launch.plan import check_options
from heed.models import build_model

ROOT = Path(__file__).parent.parent
CONF = ROOT / "conf"
REQUIRED = {"files": ["data.train=[[a.en,a.de]]", "data.valid=[[b.en,b.de]]", "data.test=[[c.en,c.de]]"]}
"""Options of a corpus that have no default."""

Compose = Callable[..., Command]


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


GROUPS = ("model", "model/positions", "model/self_attention", "module/teacher_forcing", "optimizer", "search",
          "tokenizer", "trainer", "logger", "debug")  # fmt: skip
OVERRIDES = [
    *([f"{group}={choice}"] for group in GROUPS for choice in choices(group)),
    *(["model=rnn", f"model/attention={name}"] for name in choices("model/attention")),
    *([f"data={name}", *REQUIRED.get(name, [])] for name in choices("data")),
    *([f"schedule={name}", "trainer.max_steps=1000"] for name in choices("schedule")),
]


@pytest.mark.parametrize("overrides", OVERRIDES, ids=" ".join)
def test_every_choice_builds(compose: Compose, overrides: list[str]) -> None:
    check_options(compose(*overrides).options)


@pytest.mark.parametrize("name", choices("experiment"))
def test_every_experiment_builds_also_with_debug_smoke(compose: Compose, name: str) -> None:
    check_options(compose(f"experiment={name}").options)
    check_options(compose(f"experiment={name}", "debug=smoke").options)


@pytest.mark.parametrize("name", [name for name in choices("experiment") if name.startswith("grid_")])
def test_every_model_of_a_grid_builds(compose: Compose, name: str) -> None:
    """At most ten trainings with two seeds. The arms differ in what the grid varies, and in nothing else."""
    params = OmegaConf.merge(*(OmegaConf.load(CONF / f"experiment/{file}.yaml").hydra for file in ("grid", name)))
    parser = OverridesParser.create()
    varied = parser.parse_overrides([f"{option}={values}" for option, values in params.sweeper.params.items()])
    (jobs,) = BasicSweeper.split_arguments(varied, None)
    assert 2 < len(jobs) <= 10
    assert {word for job in jobs for word in job if word.startswith("seed=")} == {"seed=1", "seed=2"}
    arms = [check_options(compose(f"experiment={name}", *job).options)[0] for job in jobs if "seed=1" in job]
    assert len({str(arm) for arm in arms}) == len(arms)


def test_a_grid_without_m_says_how_to_start_it(command: Callable[..., tuple[int, str]]) -> None:
    status, message = command("experiment=grid_norms", "model.norm=post")
    assert status == 2
    assert message == (
        "train.py: experiment=grid_norms trains a grid: add -m to start it, or choose seed, model.norm_kind for a "
        "single run.\n"
    )


def test_the_classics_have_the_choices_of_their_papers(compose: Compose) -> None:
    expected = {
        "sutskever2014": {"layers": 4, "cell": "lstm", "reverse_source": True, "score": "none"},
        "bahdanau2015": {"layers": 1, "cell": "gru", "bidirectional": True, "score": "additive", "order": "bahdanau"},
        "luong2015": {"layers": 4, "cell": "lstm", "bidirectional": False, "score": "general", "input_feeding": True},
        "vaswani2017": {"encoder_layers": 6, "norm": "post", "norm_kind": "layer", "kind": "sinusoidal"},
        "base_2026": {"norm": "pre", "norm_kind": "rms", "activation": "swiglu", "kind": "rotary"},
    }
    for name, choices_of_paper in expected.items():
        for data in ("synthetic", "multi30k"):
            model = OmegaConf.create(compose(f"experiment={name}", f"data={data}").options).model
            found = {**model, **model.get("attention", {}), **model.get("positions", {})}
            assert found.items() >= choices_of_paper.items(), name


@pytest.mark.slow
def test_published_sizes(compose: Compose) -> None:
    """The non-embedding parameters of Vaswani et al. 2017, table 3, counted by hand from the paper's equations."""
    for preset, d, f, layers in (("base", 512, 2048, 6), ("big", 1024, 4096, 6), ("tiny", 128, 256, 4)):
        config = instantiate(compose(f"model=transformer_{preset}").options["model"], _convert_="all")
        model = build_model(config, src_vocab=8, tgt_vocab=8, joint=True)
        attention, ffn, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
        encoder, decoder = attention + ffn + 2 * norm, 2 * attention + ffn + 3 * norm
        final_norms = 2 * norm if config.norm == "pre" else 0
        expected = layers * (encoder + decoder) + final_norms + 8 * d
        assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.slow
def test_only_files_for_a_corpus_and_an_optimizer_or_schedule_change_their_values(compose: Compose) -> None:
    """The files are data_optimizer/CORPUS_OPTIMIZER.yaml and data_schedule/CORPUS_SCHEDULE.yaml."""
    special = set()
    optimizers, schedules = choices("optimizer"), choices("schedule")
    rounds = range(max(len(optimizers), len(schedules)))
    together = [(optimizers[n % len(optimizers)], schedules[n % len(schedules)]) for n in rounds]
    for data, (optimizer, schedule) in product(choices("data"), together):
        cfg = OmegaConf.create(
            compose(f"data={data}", f"optimizer={optimizer}", f"schedule={schedule}", "trainer.max_steps=5000").options
        )
        for group, choice in (("optimizer", optimizer), ("schedule", schedule)):
            files = [CONF / group / f"{choice}.yaml", CONF / f"data_{group}" / f"{data}_{choice}.yaml"]
            special |= {file for file in files[1:] if file.exists()}
            own = [OmegaConf.load(file) for file in files if file.exists()]
            expected = OmegaConf.merge({"trainer": {"max_steps": 5000}}, {group: OmegaConf.merge(*own)})
            assert cfg[group] == expected[group], (data, choice)
    assert len(special) == len(choices("data_optimizer")) + len(choices("data_schedule"))


def test_the_learning_rate_of_the_user_overrides_that_of_corpus_and_optimizer(compose: Compose) -> None:
    assert compose("optimizer.lr=0.5").options["optimizer"]["lr"] == 0.5
    assert compose("data=synthetic", "optimizer=muon").options["optimizer"]["lr"] == 1e-2
    # `make train` has the learning rate of its published score.
    assert (compose().options["optimizer"]["lr"], compose().options["schedule"]["warmup_steps"]) == (3e-3, 100)


def test_models_are_smaller_on_the_built_in_corpus_only(compose: Compose) -> None:
    sizes = {"transformer": ("encoder_layers", 2, 4), "rnn": ("d_model", 256, 512)}
    for family, (option, built_in, others) in sizes.items():
        assert compose(f"model={family}").options["model"][option] == built_in
        assert compose(f"model={family}", f"model.{option}=16").options["model"][option] == 16
        assert compose(f"model={family}", "data=multi30k").options["model"][option] == others


@pytest.mark.parametrize(
    ("overrides", "optimizer", "positions"),
    [
        (["data=synthetic", "model=transformer"], "AdamW", "sinusoidal"),
        (["data=synthetic", "model=transformer", "optimizer=muon", "model/positions=rotary"], "Muon", "rotary"),
        (["data=multi30k", "model=transformer"], "Muon", "rotary"),
        (["data=multi30k", "model=transformer", "optimizer=sgd", "model/positions=alibi"], "SGD", "alibi"),
        (["data=multi30k", "model=transformer_base"], "AdamW", "sinusoidal"),
        (["data=multi30k", "model=rnn"], "AdamW", None),
        (["data=multi30k", "model=rnn", "optimizer=muon"], "Muon", None),
        (["data=multi30k", "experiment=vaswani2017"], "AdamW", "sinusoidal"),
    ],
)
def test_the_optimizer_and_positions_suit_the_corpus_and_the_model(
    compose: Compose, overrides: list[str], optimizer: str, positions: str | None
) -> None:
    cfg = OmegaConf.create(compose(*overrides).options)
    assert cfg.optimizer._target_.rpartition(".")[2] == optimizer
    assert cfg.model.get("positions", {}).get("kind") == positions

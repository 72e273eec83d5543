"""The table of renamed options: its entries, and how it is applied to plain words and mappings."""

import pytest

from heed.renamed import RENAMED, rename_keys, rename_overrides

TABLE = {"old_rate": "new_scale", "model.width": "model.d_model", "warmup": "schedule.warmup_steps"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("old_rate=2", "new_scale=2"),
        ("+old_rate=2", "+new_scale=2"),
        ("++old_rate=2", "++new_scale=2"),
        ("~old_rate", "~new_scale"),
        ("old_rate=1,2", "new_scale=1,2"),
        ("old_rate=", "new_scale="),
        ("model.width=8", "model.d_model=8"),
        ("warmup=3", "schedule.warmup_steps=3"),
        ("old_rate.part=3", "new_scale.part=3"),
    ],
)
def test_overrides_get_the_new_name(old: str, new: str) -> None:
    words, found = rename_overrides(["-m", old, "seed=1"], TABLE)
    assert words == ["-m", new, "seed=1"]
    assert found == [next(name for name in TABLE if name in old)]


@pytest.mark.parametrize(
    "word", ["old_rates=2", "model.old_rate=2", "x=old_rate=2", "--old_rate=2", "model=width", "name='old_rate=2'"]
)
def test_other_words_are_kept(word: str) -> None:
    assert rename_overrides([word], TABLE) == ([word], [])


def test_keys_of_a_nested_config_get_the_new_name() -> None:
    config = {"old_rate": 2.0, "model": {"width": 8, "layers": 1}, "warmup": 5, "schedule": {"floor": 0.1}}
    assert rename_keys(config, TABLE) == {
        "model": {"layers": 1, "d_model": 8},
        "schedule": {"floor": 0.1, "warmup_steps": 5},
        "new_scale": 2.0,
    }
    assert config["model"] == {"width": 8, "layers": 1}  # the argument is not changed


NOW_MAPPINGS = {"callbacks.ema": "callbacks.ema.decay"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("callbacks.ema=0.9", "callbacks.ema.decay=0.9"),
        ("callbacks.ema=0.9,0.99", "callbacks.ema.decay=0.9,0.99"),
        ("++callbacks.ema=0.9", "++callbacks.ema.decay=0.9"),
        ("callbacks.ema=null", "callbacks.ema=null"),
        ("callbacks.ema={decay:0.9}", "callbacks.ema={decay:0.9}"),
        ("callbacks.ema.decay=0.9", "callbacks.ema.decay=0.9"),
        ("~callbacks.ema", "~callbacks.ema"),
    ],
)
def test_a_number_under_a_name_that_is_a_mapping_now(word: str, expected: str) -> None:
    assert rename_overrides([word], NOW_MAPPINGS)[0] == [expected]


@pytest.mark.parametrize(("ema", "expected"), [(0.9, {"decay": 0.9}), (None, None), ({"decay": 0.9}, {"decay": 0.9})])
def test_a_key_that_is_a_mapping_now(ema: object, expected: object) -> None:
    assert rename_keys({"callbacks": {"ema": ema}}, NOW_MAPPINGS) == {"callbacks": {"ema": expected}}


def test_the_table_maps_old_names_to_other_names() -> None:
    assert not set(RENAMED) & set(RENAMED.values())

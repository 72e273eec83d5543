"""Parameters that were renamed between versions."""

import pytest
import torch

from heed.errors import HeedError
from heed.inference.parameter_names import RENAMES, rename_parameters
from heed.models import FAMILIES

TABLE = {
    "rnn": [(r"^reader\.", "encoder."), (r"\.(\d+)\.look\.", r".\1.attention."), (r"^encoder\.gate$", "encoder.w")]
}


def test_patterns_are_applied_in_order() -> None:
    old = {"reader.0.look.q": torch.tensor(1), "reader.gate": torch.tensor(2), "output.bias": torch.tensor(3)}
    renamed = rename_parameters(old, "rnn", TABLE)
    assert renamed == {"encoder.0.attention.q": old["reader.0.look.q"], "encoder.w": old["reader.gate"],
                       "output.bias": old["output.bias"]}  # fmt: skip
    assert rename_parameters(renamed, "rnn", TABLE) == renamed, "current names stay as they are"
    assert rename_parameters(old, "transformer", TABLE) == old


def test_two_parameters_with_one_name_are_refused() -> None:
    with pytest.raises(HeedError, match=r"contain the parameter encoder\.x twice"):
        rename_parameters({"reader.x": torch.tensor(1), "encoder.x": torch.tensor(2)}, "rnn", TABLE)


def test_the_table_has_every_family() -> None:
    assert RENAMES.keys() == FAMILIES.keys()

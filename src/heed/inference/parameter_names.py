"""Old parameter names of saved weights, so that models saved by earlier versions still load."""

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from heed.errors import HeedError

Renames = Mapping[str, Sequence[tuple[str, str]]]
"""For each model family, (regular expression, replacement) pairs as for `re.sub`."""

RENAMES: Renames = {
    "transformer": [
        (r"^(\w+\.\d+\.(?:self|cross)_attention)\.(query|key_value|output|positions)\.", r"\1.sublayer.attention.\2."),
        (r"^(\w+\.\d+\.feed_forward)\.(widen|narrow)\.", r"\1.sublayer.\2."),
        (r"^(\w+\.\d+)\.residuals\.0\.", r"\1.self_attention."),
        (r"^(decoder\.\d+)\.residuals\.1\.", r"\1.cross_attention."),
        (r"^(encoder\.\d+)\.residuals\.1\.|^(decoder\.\d+)\.residuals\.2\.", r"\1\2.feed_forward."),
    ],
    "rnn": [
        (r"^(score|reach)\.", r"attention.\1."),
        (r"^extra\.", "context_gates."),
    ],
}
"""From model folder format 1 to format 2."""


def rename_parameters(weights: Mapping[str, Tensor], family: str, renames: Renames = RENAMES) -> dict[str, Tensor]:
    """Return the weights under the parameter names that the current model classes use.

    All pairs of the family are applied to each name, in order. Names that no pattern matches stay as they are, so
    current names are unchanged as long as no pattern matches them.

    Args:
        weights: tensors by parameter name.
        family: model family, a key of ``renames``. A family without entry has no renamed parameters.

    Raises:
        HeedError: if two parameters get the same name.
    """
    renamed: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        new = name
        for pattern, replacement in renames.get(family, ()):
            new = re.sub(pattern, replacement, new)
        if new in renamed:
            raise HeedError(f"The weights contain the parameter {new} twice, once under an older name.")
        renamed[new] = tensor
    return renamed

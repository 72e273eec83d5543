"""Copies of models whose linear maps use packed weights, for inference."""

from functools import cached_property
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from heed import compat
from heed.functional.linear import LinearMap
from heed.kernels import WeightPacker
from heed.layers.embedding import TokenEmbedding

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class PackedLinear(nn.Linear):
    """A linear layer with a packed weight, made by `packed_copy`."""

    packer: WeightPacker

    @cached_property
    def product(self) -> LinearMap:
        """The linear map with the weight's values at the first use."""
        return self.packer.prepared_linear((self.weight, self.bias))

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return self.product(input)


class PackedEmbedding(TokenEmbedding):
    """A token embedding with a packed output layer, made by `packed_copy`."""

    packer: WeightPacker

    @cached_property
    def product(self) -> LinearMap:
        """The output layer with the weight's values at the first use."""
        return self.packer.prepared_linear((self.weight, None))

    def logits(self, states: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return self.product(states)


PACKED: dict[type[nn.Module], type[nn.Module]] = {nn.Linear: PackedLinear, TokenEmbedding: PackedEmbedding}


def packed_copy(model: ModuleT, packer: WeightPacker) -> ModuleT:
    """Return a model that computes the same as ``model`` with packed weights, without gradient.

    It shares parameters, buffers and all modules without linear maps with ``model``. It also shares modules that were
    modified (see `compat.is_unmodified`), with everything in them. Weights are packed at their first use and must not
    change afterwards: make a new copy for each use.
    """
    copies: dict[nn.Module, nn.Module] = {}

    def copy(module: nn.Module) -> nn.Module:
        if module not in copies:
            copies[module] = _copy(module) if compat.is_unmodified(module) else module
        return copies[module]

    def _copy(module: nn.Module) -> nn.Module:
        children = {name: child and copy(child) for name, child in module._modules.items()}
        cls = PACKED.get(type(module), type(module))
        if cls is type(module) and all(children[name] is child for name, child in module._modules.items()):
            return module
        made = object.__new__(cls)
        made.__dict__.update(vars(module), _modules=children, packer=packer)
        return made

    return copy(model)  # type: ignore[return-value]

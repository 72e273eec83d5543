"""Change attention and see what follows: edits of weights, forced rows, and heads switched off one by one."""

from heed.interventions.ablation import HeadImportance, ablate
from heed.interventions.forcing import force, force_row
from heed.layers.edits import Edit

__all__ = ["Edit", "HeadImportance", "ablate", "force", "force_row"]

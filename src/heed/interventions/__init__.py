"""Change attention and see what follows: edits of weights, forced rows, heads switched off or patched one by one."""

from heed.interventions.ablation import HeadImportance, ablate
from heed.interventions.forcing import force, force_row
from heed.interventions.patching import PatchedHead, Patching, patch
from heed.layers.edits import Edit

__all__ = ["Edit", "HeadImportance", "PatchedHead", "Patching", "ablate", "force", "force_row", "patch"]

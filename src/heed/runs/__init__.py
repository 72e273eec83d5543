"""Run folders on disk: claim, read, write, average and list them. Files only: neither Lightning nor Hydra."""

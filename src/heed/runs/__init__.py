"""Run folders on disk: create, read, write, average and list them. Files only: neither Lightning nor Hydra."""

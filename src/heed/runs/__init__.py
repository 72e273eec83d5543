"""Run folders on disk: claiming one, and what it holds. Files only, no Lightning."""

"""The files and the Optuna attributes of a study. `heed.sweep.summary` reads what the other modules write."""

FORMAT = 1
"""Version of the attributes of a study and of its verdict."""
STUDY_FILE = "study.db"
"""SQLite database of the trials, in the folder of the study."""
VERDICT = "verdict.json"
"""The best configurations over seeds and the winner, in the folder of the study."""

ATTRIBUTES = "heed"
"""The user attribute of a study that describes it."""
REASON = "reason"
"""The user attribute of a trial that failed. Without it, the worker died or was stopped, and the trial is continued."""
SURPLUS = "surplus"
"""The reason of a trial that a worker claimed when the budget was used up, and did not start."""

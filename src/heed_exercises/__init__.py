"""Exercises: write the blocks of heed yourself, and check them.

``files/NAME`` has what an exercise consists of: the solution, known mistakes with a sentence each, and a hint. The
student's file is the solution without its body. `check` compares any implementation with the solution on random inputs.
"""

from heed_exercises.check import CheckError, Result, check, check_file, start
from heed_exercises.exercise import EXERCISES, find

__all__ = ["EXERCISES", "CheckError", "Result", "check", "check_file", "find", "start"]

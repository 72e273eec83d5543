"""Exercises: write the blocks of heed yourself, and check them.

``files/NAME`` has what an exercise consists of: the solution, known mistakes with a sentence each, and a hint. The
student's file is the solution without its body. `check` compares any implementation with the solution on random inputs.
"""

from heed.exercises.check import CheckError, check
from heed.exercises.inputs import EXERCISES, find
from heed.exercises.student import Result, check_file, start

__all__ = ["EXERCISES", "CheckError", "Result", "check", "check_file", "find", "start"]

"""Turn errors of a run, of Hydra and of Lightning into messages for the user."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb

import yaml

from heed.compat import hydra_flags
from heed.errors import HeedError, first_line
from heed.files import CONF, NO_ROOM
from heed.launch import program_words
from heed.launch.compose import (
    COMPOSITION_ERRORS,
    HydraException,
    MissingConfigException,
    all_option_names,
    compose_with_hydra,
    option_name,
)
from heed.options import suggest


class JobFailedError(BaseException):
    """Carries the error of a run, its argument, past Hydra, which would print its own message."""


@contextmanager
def explained(overrides: Sequence[str]) -> Iterator[None]:
    """Turn errors inside the block that the user can fix into a HeedError with their message."""
    try:
        yield
    except Exception as error:
        if (message := explain_error(error, overrides=overrides)) is None:
            raise
        raise HeedError(message) from error


def explain_error(error: BaseException, *, overrides: Sequence[str]) -> str | None:
    """Return the message for an error that the user can fix; None for any other. ``overrides``: the command line."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    for cause in causes:
        # Lightning's exception by name: importing its class takes seconds.
        if isinstance(cause, HeedError) or type(cause).__name__ == "MisconfigurationException":
            return str(cause)
        # torch's exceptions by name: importing it takes seconds. Those of gloo, between CPUs, are RuntimeErrors that
        # start with the line of its source.
        is_of_gloo = re.match(r"\[\S*gloo/transport\S*\] ", str(cause))
        if is_of_gloo or any(base.__name__ == "DistError" for base in type(cause).__mro__):
            return (
                f"An exchange with another process of this run failed ({first_line(cause)}): see the output of that "
                "process, then continue with resume=true."
            )
        if typos := _typos(cause, overrides):
            return "\n".join(typos)
        if several := re.match(r"Ambiguous value for argument '(.+)'", str(cause)):
            return f"{several[1]} has several values: add -m to train one run for each, or quote a list ('NAME=[A,B]')."
        if "does not support sweep type" in str(cause):
            return "A grid cannot enumerate interval(…): add sweep=default to search it, or give choice(…) or range(…)."
        if isinstance(cause, OSError) and cause.errno:
            verb = "written" if cause.errno in NO_ROOM else "used"
            return f"{cause.filename or 'A file'} cannot be {verb}: {os.strerror(cause.errno)}."
    if isinstance(error, COMPOSITION_ERRORS) or _is_from_composition(error):
        if removed := [override for override in overrides if override.startswith("~")]:
            return f"{' and '.join(removed)} removes a part that a run needs: leave it out, or choose another part."
        if malformed := _malformed(overrides):
            return malformed
        message = ": ".join(first_line(cause) for cause in causes)
        if re.search("LexerNoViableAlt|mismatched input|no viable alternative|token recognition", message):
            message += (
                ". Quote paths with other characters than letters of ASCII: data.train=\"[['Müller/a.en',a.de]]\""
            )
        return message
    return None


def _malformed(overrides: Sequence[str]) -> str | None:
    """Return what is wrong with the form of the overrides, as far as it can be seen without Hydra."""
    line = " ".join(overrides)
    if spaced := re.search(r"(?:^| )([\w./]+)(?:\s+=\s*|=\s+)([^\s=]+)(?= |$)", line):
        return f"{spaced[0].strip()}: leave out the spaces around =, {spaced[1]}={spaced[2]}."
    for opening, closing in ("[]", "{}", "()"):
        uneven = [word for word in overrides if word.count(opening) != word.count(closing)]
        if uneven and line.count(opening) == line.count(closing):
            return f"The shell has cut an option at a space: quote all of it, '{' '.join(uneven)}'."
        if uneven:
            return f"{uneven[0]}: the brackets do not match. Pairs of files are data.train='[[a.en,a.de]]'."
    words = hydra_flags(overrides)[0].overrides
    if bare := [word for word in words if re.match(r"[^+~=][^=]*$|[+~]*[=@:]", word)]:
        return f"{bare[0]} is not an option: write NAME=VALUE, such as model=rnn or data.train='[[a.en,a.de]]'."
    for name, _, value in (word.partition("=") for word in overrides):
        if value.startswith("[") and name != "logger" and (CONF / name).is_dir():
            return f"{name}={value} must be one choice, such as {name}={value.strip('[]').partition(',')[0]}."
    return None


def _is_from_composition(error: BaseException) -> bool:
    """Return whether Hydra failed before it called the job. Some overrides, such as ``+=.``, fail its assertions."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    inner = frames[-1].f_globals.get("__name__", "") if frames else ""
    return inner.startswith(("hydra.", "omegaconf.")) and "run_job" not in {frame.f_code.co_name for frame in frames}


def _typos(error: BaseException, overrides: Sequence[str]) -> list[str]:
    """Return a sentence for each unknown option or choice if the error reports one; Hydra itself stops at the first."""
    if isinstance(error, MissingConfigException) and "/" in (file := str(error.missing_cfg_file)):
        name, _, choice = file.rpartition("/")  # model=transfomer: the file would be model/transfomer
        options = error.options or [path.stem for path in (CONF / name).glob("*.yaml")]
        close = suggest(choice, options, f"{name}=")
        sentence = f"{name}={choice} is unknown{close}: choose one of {', '.join(sorted(options))}."
    elif isinstance(error, HydraException) and (unknown := re.match(r"Could not override '(.+?)'", str(error))):
        name = unknown[1]
        sentence = _unknown_option(name, overrides)
    elif unknown := re.match(r"In '(.+?)': .*\nKey '(.+?)' not in", str(error)):
        preset, name = unknown[1], unknown[1].partition("/")[0]
        sentence = f"{preset}: {_unknown_option(unknown[2], overrides)}"
    else:
        return []
    others = _without(name, overrides)
    try:
        compose_with_hydra(others)
    except COMPOSITION_ERRORS as following:
        causes = (following, following.__cause__ or following)
        return [sentence, *next(filter(None, (_typos(cause, others) for cause in causes)), [])]
    return [sentence]


def _without(name: str, overrides: Sequence[str]) -> list[str]:
    """Return the overrides of other options, without flags and without the ranges and grids of a search."""
    options = [word for word in overrides if re.match(r"[^-=][^=]*=|~", word) and not re.search(r"=.*[,(]", word)]
    return [word for word in options if option_name(word) != name]


def _unknown_option(name: str, overrides: Sequence[str]) -> str:
    """Return the message for ``modle=rnn`` and ``optimizer.lrr=1``: names like it in the composed configuration."""
    try:
        cfg = compose_with_hydra(_without(name, overrides))
    except COMPOSITION_ERRORS:
        cfg = compose_with_hydra([])
    known = all_option_names(cfg)
    path, _, option = name.rpartition(".")
    group = path.replace(".", "/")
    files = sorted((CONF / group).glob("*.yaml")) if group else ()
    if owners := [file.stem for file in files if option in {*(yaml.safe_load(file.read_bytes()) or ())} - {"defaults"}]:
        chosen = cfg.hydra.runtime.choices.get(group)
        other = f", not of {group}={chosen}" if chosen else ""
        return f"{name} is an option of {group}={' or '.join(owners)}{other}: leave it out, or choose another."
    if name in known:
        return f"{name} is not an option under these choices, such as those of model: leave it out, or choose others."
    show = shlex.join([*program_words(), "--cfg", "job"])
    return f"{name} is unknown{suggest(name, known)}: `{show}` shows every option."

"""Check the code and run the tests, on any system, with the Python of the environment that heed is installed in.

Without arguments: the checks, the tests of computation with checks of types and shapes, then the other tests of CI.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent
"""The folder of the environment's programs: ``.venv/bin``, on Windows ``.venv\\Scripts``."""

MOST_CPU_SECONDS = 960
"""The tests that CI runs should need no more, the checks and all child processes included."""
SLOWEST = 20
"""Tests that are listed at the end."""

# These look for names that a system lacks. They need no types of other packages; torch takes most of the time.
ON_OTHER_SYSTEMS = ["--follow-imports=skip", "--allow-subclassing-any", "--allow-untyped-decorators",
                    "--disable-error-code=unused-ignore", "--disable-error-code=has-type", "src/heed"]  # fmt: skip
CODE = ["src", "tests", "scripts", "notebooks", "train.py"]
CHECKS = {
    "ruff check": ["ruff", "check", *CODE],
    "ruff format": ["ruff", "format", "--check", *CODE],
    "mypy": ["mypy"],
    # mypy discards a cache that was written for another system.
    **{
        f"mypy for {system}": ["mypy", "--platform", system, "--cache-dir", f".mypy_cache/{system}", *ON_OTHER_SYSTEMS]
        for system in ("linux", "darwin", "win32")
        if system != sys.platform
    },
    "lint-imports": ["lint-imports"],
}

WHAT = ("check", "fast", "full", "wheel")

# The tests that tests/conftest.py marks. Naming their folders makes collecting quick.
ROOMS = ("functional", "kernels", "layers", "models", "decoding", "training", "exercises")
FAST = ["-m", "fast", *(f"tests/{name}" for name in ROOMS)]
CI = "not (browser or full)"
# Checks the arguments and results of annotated functions, which takes time: see tests/type_checks.py.
SHAPES = (
    "--jaxtyping-packages=heed.functional,heed.kernels,heed.layers,heed.models,heed.decoding,heed.training,"
    "heed.inference,heed.data.steps.batch,beartype.beartype"
)


def main() -> int:
    """Run what the command line asks for and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Other arguments are pytest's: `python scripts/test.py tests/layers -k attention`."
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=WHAT,
        help="check: style, types, import rules. fast: the tests of computation. full: the checks, all tests and the "
        "soak test. wheel: build the wheel and train from it in an empty environment",
    )
    given = sys.argv[1:]
    known = given[:1] if given[:1] and given[0] in (*WHAT, "-h", "--help") else []
    what, rest = parser.parse_args(known).what, given[len(known) :]
    os.chdir(ROOT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process would compile heed and the tests again
    os.environ["PATH"] = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
    if what == "wheel":
        return try_wheel(*rest)
    if what == "check":
        return check()
    if what == "fast":
        return pytest(*FAST, SHAPES, *rest)
    # With several processes, pytest would find no tests instead of saying this.
    if missing := [word for word in rest if word.startswith("tests") and not Path(word.partition("::")[0]).exists()]:
        parser.error(f"there is no {' and no '.join(missing)}")
    if what is None and rest:
        return pytest("-m", CI, *rest)
    with tempfile.TemporaryDirectory() as folder:
        reports = [Path(folder, name) for name in ("fast.json", "others.json")]
        fuzz = ["--fuzz-cases=3000"] if what == "full" else []
        others = "not fast" + ("" if what == "full" else f" and {CI}")
        status = check()
        times = os.times()  # on Windows without children
        checks = times.children_user + times.children_system
        status = (
            status
            or pytest(*FAST, SHAPES, f"--cpu-report={reports[0]}", *rest)
            or pytest("-m", others, *fuzz, f"--cpu-report={reports[1]}", *rest)
        )
        if what == "full" and os.name == "posix":
            soak = [sys.executable, "scripts/soak", "--kills", "60", "--out", f"{tempfile.mkdtemp()}/soak"]
            status = status or subprocess.run(soak).returncode
        print_cpu_seconds([report for report in reports if report.exists()], checks=checks, limit=what is None)
    return status


def check() -> int:
    """Run all checks, and return the status of the last one that failed."""
    status = 0
    for name, command in CHECKS.items():
        print(f"{name}: ", end="", flush=True)
        status = (
            subprocess.run([shutil.which(command[0], path=PROGRAMS) or command[0], *command[1:]]).returncode or status
        )
    return status


def pytest(*arguments: str) -> int:
    """Run pytest with one process for each core, one thread each: tests are many and small."""
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *arguments]
    return subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode


def print_cpu_seconds(reports: Sequence[Path], *, checks: float, limit: bool) -> None:
    """Print the tests that needed most CPU seconds, and the sum of all.

    Args:
        reports: what ``--cpu-report`` wrote, see tests/cpu.py.
        checks: CPU seconds of the checks.
        limit: warn above `MOST_CPU_SECONDS`.
    """
    contents = [json.loads(report.read_text(encoding="utf-8")) for report in reports]
    tests = {name: seconds for content in contents for name, seconds in content["tests"].items()}
    for name in sorted(tests, key=lambda name: -tests[name])[:SLOWEST]:
        print(f"{tests[name]:7.1f} {name}")
    total = round(checks + sum(content["total"] for content in contents))
    print(f"{total} CPU seconds in all, {checks:.0f} of them for the checks")
    if limit and total > MOST_CPU_SECONDS:
        print(f"WARNING: more than {MOST_CPU_SECONDS} CPU seconds. Mark expensive tests as full, or make them cheaper.")


def try_wheel(dependencies: str = "") -> int:
    """Build the wheel, install it into an empty environment, and train, translate and use Python there.

    Args:
        dependencies: a folder such as ``.venv/lib/python3.11/site-packages``, to use the packages there instead of
            installing them. heed itself always comes from the wheel.
    """
    for name in ("PYTHONPATH", "PYTHONHOME"):  # no package is found through the environment
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve()
        venv.create(folder / "venv", with_pip=True, symlinks=os.name == "posix")
        programs = folder / "venv" / PROGRAMS.name
        python, heed = str(programs / "python"), str(programs / "heed")
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", ".", ROOT], cwd=folder, check=True)
        wheel = next(folder.glob("heed_nmt-*.whl"))
        if dependencies:
            command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
            site = subprocess.check_output(command, encoding="utf-8").strip()
            # Only the folder itself: its .pth files would add the checkout.
            Path(site, "dependencies.pth").write_text(str((ROOT / dependencies).resolve()), encoding="utf-8")
            subprocess.run([*pip, "install", "--no-deps", "--force-reinstall", wheel], check=True)
        else:
            subprocess.run([*pip, "install", "--constraint", ROOT / "constraints.txt", wheel], check=True)

        empty = folder / "empty"
        (empty / "my_conf" / "experiment").mkdir(parents=True)
        mine = empty / "my_conf" / "experiment" / "mine.yaml"
        mine.write_text("# @package _global_\nseed: 7\n", encoding="utf-8")
        two = ["trainer=ddp_cpu", "trainer.devices=2", "folder=runs/two"]
        two += ["data.train=1000", "data.valid=50", "data.test=50", "data.long=10"]
        sentence = "The dog sleeps ."
        for command, expected in (
            ([python, "-c", "import heed; print(heed.__file__)"], str(folder / "venv")),
            ([heed, "--version"], "heed"),
            ([python, "-m", "heed", "--help"], "train"),
            ([heed, "train", "--help"], "groups:"),
            ([heed, "train", "debug=smoke", "logger=none", "folder=runs/smoke"], ""),
            ([heed, "train", "debug=smoke", "logger=none", *two], ""),
            ([heed, "train", "--config-dir", "my_conf", "experiment=mine", "--cfg", "job"], "\nseed: 7\n"),
            ([heed, "translate", "--model", "runs/smoke"], ""),
            ([str(programs / "heed-exercise"), "start"], "brevity_penalty.py: write the body"),
            ([python, "-c", f"import heed; print(heed.load('runs/smoke').translate(['{sentence}'], beam=5))"], "["),
        ):
            print("+", *command, flush=True)
            output = subprocess.check_output(command, cwd=empty, input=f"{sentence}\n", encoding="utf-8")
            if expected not in output:
                print(f"The output lacks {expected!r}:\n{output}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

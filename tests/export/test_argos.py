"""Argos packages have the documented layout and translate as heed does."""

import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import heed
from heed.export import to_argos, to_ctranslate2
from heed.inference import model_folder
from tests.export.models import LINES, positions, transformer, write_model, write_run

pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]
NAME = "translate-en_de-100_0"


def test_the_package_is_a_zip_of_one_folder(heed_cli: Heed, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer())
    status, out, err = heed_cli("export", run, "--to", "argos", "--quantization", "int8")
    assert status == 0, err
    assert "BLEU (greedy)" in out
    folder = run / "export" / "argos-int8"
    assert [path.name for path in folder.iterdir()] == [f"{NAME}.argosmodel"]
    with zipfile.ZipFile(folder / f"{NAME}.argosmodel") as archive:
        names = set(archive.namelist())
        assert {name.split("/")[0] for name in names} == {NAME}
        assert {
            f"{NAME}/{name}" for name in ("metadata.json", "README.md", "sentencepiece.model", "model/model.bin")
        } <= names
        metadata = json.loads(archive.read(f"{NAME}/metadata.json"))
        config = json.loads(archive.read(f"{NAME}/model/config.json"))
        tokenizer = archive.read(f"{NAME}/sentencepiece.model")
    assert (metadata["from_code"], metadata["to_name"]) == ("en", "German")
    assert float(metadata["package_version"]) > 10  # the index of Argos Translate has versions from 1.0
    assert config["add_source_eos"] is True
    assert tokenizer == (run / "model" / "tokenizer.model").read_bytes()


def test_packages_have_codes_of_iso_639_1(tmp_path: Path) -> None:
    languages = {"src_lang": "eng_Latn", "tgt_lang": "deu"}
    translator = heed.load(write_model(tmp_path / "model", transformer(), languages=languages))
    assert translator.directions == ["eng_Latn-deu"]
    assert to_argos.package_name(translator) == NAME


def test_refusals_say_what_stands_in_the_way(heed_cli: Heed, tmp_path: Path) -> None:
    two = write_run(tmp_path / "two", transformer(), joint=False)
    assert "tokenizer.joint=true" in heed_cli("export", two, "--to", "argos")[2]
    alibi = write_run(tmp_path / "alibi", transformer(positions=positions("alibi")))
    assert "alibi" in heed_cli("export", alibi, "--to", "argos")[2]
    nameless = write_run(tmp_path / "nameless", transformer())
    loaded = model_folder.load(nameless)
    model_folder.save(nameless / "model", loaded.model, loaded.tokenizer, extra={})
    assert "data.src_lang" in heed_cli("export", nameless, "--to", "argos")[2]
    assert not [*tmp_path.glob("*/export/**/*.*")]


def test_a_failed_export_leaves_nothing(heed_cli: Heed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(to_ctranslate2, "compare_engines", interrupt)
    run = write_run(tmp_path / "run", transformer())
    assert heed_cli("export", run, "--to", "argos")[0] == 130
    assert not [*tmp_path.glob("run/export/argos/*")]


@pytest.mark.full
@pytest.mark.parametrize(
    "changes", [{}, {"norm": "post"}, {"norm_kind": "rms", "activation": "swiglu", "positions": positions("rotary")}]
)
def test_argos_translate_translates_as_heed_does(heed_cli: Heed, tmp_path: Path, changes: dict[str, object]) -> None:
    """Needs ARGOS_PYTHON: a Python that has argostranslate, whose requirements conflict with heed's."""
    if (python := os.environ.get("ARGOS_PYTHON")) is None:
        pytest.skip("ARGOS_PYTHON names no Python with argostranslate")
    # With this seed no model writes padding, which Argos Translate does not prevent. A trained model never does.
    run = write_run(tmp_path / "run", transformer(**changes), seed=4)
    assert heed_cli("export", run, "--to", "argos")[0] == 0
    script = Path(__file__).with_name("argos_translate.py")
    file = run / "export" / "argos" / f"{NAME}.argosmodel"
    environment = {
        "ARGOS_PACKAGES_DIR": str(tmp_path / "packages"),
        "ARGOS_BEAM_SIZE": "1",
        "ARGOS_COMPUTE_TYPE": "float32",
        "HOME": str(tmp_path),
    }
    result = subprocess.run(
        [python, script, file, "en", "de"],
        input="\n".join(LINES),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = heed.load(run).translate(LINES, beam=1)
    # Argos Translate has another length limit, which models with random weights reach.
    assert [text[: len(mine)] for text, mine in zip(result.stdout.splitlines(), ours, strict=True)] == ours

"""Argos packages have the documented layout and translate as heed does."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import heed
from heed.export import to_argos
from tests.export.models import transformer, write_model, write_run

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

"""A sentence splitter that does not split, in the format of MiniSBD. LibreTranslate downloads its own."""

import json
from pathlib import Path

import onnx
from onnx import TensorProto, helper

UNITS = ["<PAD>", "<UNK>"]


def write_splitter(path: Path) -> None:
    """Write a model in which every character scores 0 for all three classes, so that none ends a sentence."""
    classes = 3
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "units"], ["scores"])],
        "splitter",
        [
            helper.make_tensor_value_info("units", TensorProto.INT64, ["B", "S"]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["B", "S", "F"]),
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["B", "S", classes])],
        [helper.make_tensor("table", TensorProto.FLOAT, [len(UNITS), classes], [0.0] * len(UNITS) * classes)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ids = {unit: number for number, unit in enumerate(UNITS)}
    facts = {"config": {"feat_funcs": ["capitalized"]}, "vocab": {"_unit2id": ids, "_id2unit": UNITS}}
    helper.set_model_props(model, {name: json.dumps(content) for name, content in facts.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)

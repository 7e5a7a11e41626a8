"""What a model remembers of its training data: a name, never a path."""

import json

from datasets import Dataset

from hf_labelattn.training.experiment import DataArguments, data_marks, prepare_data


def test_files_are_called_after_their_folder_or_themselves(tmp_path, monkeypatch):
    folder = tmp_path / "ward_7"
    folder.mkdir()
    assert data_marks(DataArguments(train_file=str(folder / "train.jsonl.gz"))) == {"name": "ward_7"}
    assert data_marks(DataArguments(train_file=str(folder / "notes.2024.csv"))) == {"name": "notes"}
    assert data_marks(DataArguments(test_file=str(folder / "test.csv"))) == {"name": "ward_7"}
    monkeypatch.chdir(folder)
    assert data_marks(DataArguments(train_file="train.jsonl")) == {"name": "ward_7"}


def test_datasets_keep_their_hub_id_and_lose_their_path(tmp_path):
    (tmp_path / "saved").mkdir()
    assert data_marks(DataArguments(dataset_name=str(tmp_path / "saved"))) == {"name": "saved"}
    assert data_marks(DataArguments(dataset_name="org/notes")) == {"name": "org/notes"}
    assert data_marks(DataArguments(dataset_name="synthetic_notes")) == {"name": "synthetic_notes"}
    nameless = DataArguments(dataset_name=Dataset.from_dict({"text": []}), label_file="labels.csv")
    assert data_marks(nameless) == data_marks(DataArguments()) == {}


def test_the_name_reaches_the_config(tmp_path):
    rows = [{"id": str(i), "text": "fever cough", "labels": ["a"]} for i in range(8)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = prepare_data(DataArguments(train_file=str(tmp_path / "train.jsonl")))
    assert data.config_fields()["training_data"]["name"] == tmp_path.name

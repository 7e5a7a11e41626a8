"""The terms of credentialed data follow them: from the files into the config, and on to models that start from it."""

import json

import pytest

from hf_labelattn.models.configuration_awd_lstm import AwdLstmConfig
from hf_labelattn.training.experiment import DataArguments, data_marks, inherit_terms


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "dataset.json").write_text(json.dumps({"name": "mimic3-full", "terms": "physionet", "labels": 8929}))
    return tmp_path


def test_one_file_in_a_marked_folder_is_enough(folder, tmp_path_factory):
    elsewhere = str(tmp_path_factory.mktemp("plain") / "train.jsonl")
    assert "terms" not in data_marks(DataArguments(train_file=elsewhere))
    for name in ("train_file", "validation_file", "test_file", "label_file"):
        marked = DataArguments(**{"train_file": elsewhere, name: str(folder / "any.jsonl.gz")})
        assert data_marks(marked) == {"name": "mimic3-full", "terms": "physionet"}
    assert data_marks(DataArguments(dataset_name=str(folder)))["terms"] == "physionet"


def test_a_model_is_under_the_terms_of_what_it_starts_from(tmp_path):
    language_model = AwdLstmConfig(vocab_size=10)
    language_model.training_data = {"terms": "physionet"}
    language_model.save_pretrained(tmp_path)
    start = AwdLstmConfig.from_pretrained(tmp_path)
    fields = {"training_data": {"train_documents": 3}}
    assert inherit_terms(fields, start)["training_data"] == {"train_documents": 3, "terms": "physionet"}
    assert inherit_terms(fields, AwdLstmConfig(vocab_size=10)) == inherit_terms(fields, None) == fields

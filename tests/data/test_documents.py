"""Documents keep what belongs to them, whatever is taken from the set."""

import numpy as np

from hf_labelattn.data.documents import DocumentDataset, ragged

BIG = 2**61


def documents(**extra) -> DocumentDataset:
    return DocumentDataset(
        ragged([[2, 3], [], [4]]), ragged([[0], [1, 2], []]), 2, ("a", "b", "c"), ("x", "y", "z"), **extra
    )


def test_a_plain_row_has_ids_and_known_labels_only():
    rows = documents()
    assert rows[0].keys() == {"input_ids", "labels"}
    assert rows[1]["labels"].tolist() == [1] and rows.lengths.tolist() == [2, 0, 1]


def test_what_matching_reads_goes_with_its_document():
    logits = np.arange(6, dtype=np.float16).reshape(3, 2)
    hashes = ragged([[BIG], [0, 5], []], np.int64)
    rows = documents(match_tokens=ragged([[7], [8, 9], []]), match_hashes=hashes, base_logits=logits)
    taken = rows.take([1, 0])
    assert taken.ids == ("y", "x") and len(taken) == 2
    assert taken[0]["match_input_ids"].tolist() == [8, 9] and taken[0]["match_hash"].tolist() == [0, 5]
    assert taken[1]["match_hash"].tolist() == [BIG]
    assert taken[1]["base_logits"].tolist() == [0.0, 1.0]
    assert documents().take([2]).match_tokens is None

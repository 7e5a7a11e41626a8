"""Documents become batches of chunks, in reading order, with nothing lost."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_labelattn.data.chunking import ChunkLayout
from hf_labelattn.data.collator import ChunkedDocumentCollator


def rows(*lengths, labels=((0,),)):
    return [{"input_ids": np.arange(2, 2 + n), "labels": labels[i % len(labels)]} for i, n in enumerate(lengths)]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.one_of(st.none(), st.integers(1, 7)))
def test_every_token_is_there_once_and_padding_is_on_the_right(lengths, chunk_size):
    batch = ChunkedDocumentCollator(num_labels=1, layout=ChunkLayout(chunk_size))(rows(*lengths))
    ids, mask = batch["input_ids"].flatten(1), batch["attention_mask"].flatten(1).bool()
    for row, length in enumerate(lengths):
        assert ids[row][mask[row]].tolist() == list(range(2, 2 + length))
        assert mask[row].sum() == length and mask[row, :length].all()
        assert batch["num_chunks"][row] == ChunkLayout(chunk_size).num_chunks(length)
    assert (ids[~mask] == 0).all()


def test_labels_become_multi_hot_and_absent_labels_are_legal():
    batch = ChunkedDocumentCollator(num_labels=3)(rows(4, 2, labels=((0, 2), ())))
    assert torch.equal(batch["labels"], torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))


def test_single_label_gives_class_ids_and_refuses_two():
    collator = ChunkedDocumentCollator(num_labels=3, single_label=True)
    assert collator(rows(4, 2, labels=((2,), (1,))))["labels"].tolist() == [2, 1]
    with pytest.raises(ValueError, match="A document has 2 labels.*multi_label_classification"):
        collator(rows(4, labels=((0, 1),)))


def test_what_max_tokens_drops_is_counted_and_said_once(caplog):
    collator = ChunkedDocumentCollator(num_labels=1, max_tokens=5)
    batch = collator(rows(9, 3))
    collator(rows(6))
    assert batch["attention_mask"].sum() == 5 + 3
    assert collator.dropped_tokens == 4 + 1
    assert caplog.text.count("max_tokens=5") == 1


def test_a_plain_batch_has_nothing_for_matching():
    assert ChunkedDocumentCollator(num_labels=1)(rows(3)).keys() == {
        "input_ids",
        "attention_mask",
        "num_chunks",
        "labels",
    }


def test_words_of_the_matcher_are_not_cut_into_chunks():
    given = [{"input_ids": np.arange(2, 9), "match_input_ids": [5, 1], "match_hash": [0, 2**61]}]
    given += [{"input_ids": np.arange(2, 4), "match_input_ids": [4, 5, 6], "match_hash": [0, 0, 0]}]
    batch = ChunkedDocumentCollator(num_labels=1, layout=ChunkLayout(4, (101,), (102,)))(given)
    assert batch["match_input_ids"].tolist() == [[5, 1, 0], [4, 5, 6]]
    assert batch["match_attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["match_hash"].tolist() == [[0, 2**61, 0], [0, 0, 0]]


@pytest.mark.parametrize("layout", [ChunkLayout(), ChunkLayout(3), ChunkLayout(4, (101,), (102,))])
def test_hashes_stand_where_their_tokens_stand(layout):
    given = [{"input_ids": np.arange(2, 2 + n), "match_hash": np.arange(2, 2 + n) * 10} for n in (7, 0, 2)]
    batch = ChunkedDocumentCollator(num_labels=1, layout=layout, max_tokens=6)(given)
    ids, hashes = batch["input_ids"], batch["match_hash"]
    word = (ids > 0) & (ids < 100)
    assert torch.equal(hashes, torch.where(word, ids * 10, 0)) and word.sum() == 6 + 2


def test_scores_of_a_base_are_passed_on():
    given = [{"input_ids": [2], "base_logits": np.array([1.5, -2], dtype=np.float16)}] * 2
    assert ChunkedDocumentCollator(num_labels=2)(given)["base_logits"].tolist() == [[1.5, -2.0]] * 2

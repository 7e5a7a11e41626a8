"""Documents are cut and put together without losing a token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_labelattn.data.chunking import ChunkLayout, cut, word_positions


@given(st.integers(0, 40), st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 2), st.integers(0, 2))
def test_chunks_hold_every_token_once_in_order(length, words, before, after):
    layout = ChunkLayout(None if words is None else words + before + after, (101,) * before, (102,) * after)
    ids = np.arange(length)
    chunks = cut(ids, layout)
    assert len(chunks) == layout.num_chunks(length)
    assert all(len(chunk) == layout.chunk_size for chunk in chunks[:-1])
    flat = np.concatenate(chunks)
    if words is None or len(chunks) == 1 or all(len(c) == layout.chunk_size for c in chunks[:-1]):
        np.testing.assert_array_equal(flat[word_positions(length, layout)], ids)


def test_special_tokens_must_leave_room_for_a_word():
    with pytest.raises(ValueError, match="Pass `chunk_size=3` or more"):
        ChunkLayout(2, prefix=(101,), suffix=(102,))

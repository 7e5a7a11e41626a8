"""The order of documents: like lengths together, shuffled, the same on every process."""

import numpy as np
import pytest

from hf_labelattn.data.sampler import LengthAwareSampler, padding_waste

LENGTHS = np.random.default_rng(0).lognormal(5, 0.6, 5000).astype(int)


def test_every_document_comes_once_per_epoch_and_the_last_batch_is_filled_up():
    order = list(LengthAwareSampler(LENGTHS, 16))
    assert sorted(set(order)) == list(range(len(LENGTHS)))
    assert len(order) == len(LengthAwareSampler(LENGTHS, 16)) == 5008
    assert len(set(order[:5000])) == 5000


def test_padding_wastes_a_few_per_cent_where_plain_shuffling_wastes_half():
    sampler = LengthAwareSampler(LENGTHS, 16)
    assert padding_waste(LENGTHS, sampler.order(), 16) < 0.04
    assert padding_waste(LENGTHS, np.random.default_rng(1).permutation(len(LENGTHS)), 16) > 0.4


def test_epochs_differ_and_repeat_with_the_seed():
    sampler = LengthAwareSampler(LENGTHS, 16, seed=3)
    first = sampler.order()
    sampler.set_epoch(1)
    assert not np.array_equal(first, sampler.order())
    assert np.array_equal(first, LengthAwareSampler(LENGTHS, 16, seed=3).order())
    assert not np.array_equal(first, LengthAwareSampler(LENGTHS, 16, seed=4).order())


def test_batches_are_shuffled():
    batches = LENGTHS[LengthAwareSampler(LENGTHS, 16).order()[:4992]].reshape(-1, 16).mean(1)
    assert abs(np.corrcoef(np.arange(len(batches)), batches)[0, 1]) < 0.2


def test_evaluation_reads_the_longest_first():
    order = LengthAwareSampler(LENGTHS, 16, shuffle=False).order()
    assert (np.diff(LENGTHS[order]) <= 0).all()


@pytest.mark.parametrize(("count", "length"), [(0, 0), (1, 1), (15, 15), (16, 16), (17, 32)])
def test_few_documents(count, length):
    sampler = LengthAwareSampler(LENGTHS[:count], 16)
    assert sorted(set(sampler)) == list(range(count))
    assert len(list(sampler)) == len(sampler) == length

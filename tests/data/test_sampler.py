"""The order of documents: like lengths together, shuffled, the same on every process."""

import numpy as np
import pytest

from hf_labelattn.data.sampler import LengthAwareSampler, padding_waste

LENGTHS = np.random.default_rng(0).lognormal(5, 0.6, 5000).astype(int)


def test_every_document_comes_once_per_epoch():
    assert sorted(LengthAwareSampler(LENGTHS, 16)) == list(range(len(LENGTHS)))


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


@pytest.mark.parametrize("count", [0, 1, 15, 17])
def test_few_documents(count):
    assert sorted(LengthAwareSampler(LENGTHS[:count], 16)) == list(range(count))

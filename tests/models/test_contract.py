"""The contract, over every classifier."""

import pytest

from .. import tiny
from . import contract

EVERY = pytest.mark.parametrize("name", sorted(tiny.CLASSIFIERS))
TRAINED = pytest.mark.parametrize("name", sorted(set(tiny.CLASSIFIERS) - tiny.FITTED))
ATTENTIVE = pytest.mark.parametrize("name", sorted(set(tiny.CLASSIFIERS) - tiny.WITHOUT_ATTENTION))


@EVERY
def test_save_and_load(name, tmp_path):
    contract.check_save_and_load(tiny.CLASSIFIERS[name], tmp_path)


@EVERY
def test_everything_is_initialised(name):
    contract.check_everything_is_initialised(tiny.CLASSIFIERS[name])


@EVERY
def test_padding_changes_nothing(name):
    contract.check_padding(tiny.CLASSIFIERS[name])


@EVERY
def test_a_document_does_not_depend_on_its_batch(name):
    contract.check_batch(tiny.CLASSIFIERS[name])


@EVERY
def test_windows_equal_the_whole(name):
    contract.check_windows(tiny.CLASSIFIERS[name])


@TRAINED
def test_gradient_reaches_every_parameter(name):
    contract.check_gradients(tiny.CLASSIFIERS[name])


@TRAINED
def test_overfits_four_notes(name):
    contract.check_overfits(tiny.CLASSIFIERS[name])


@EVERY
def test_tuple_equals_dict(name):
    contract.check_tuple(tiny.CLASSIFIERS[name])


@ATTENTIVE
def test_attentions_sum_to_one(name):
    contract.check_attentions(tiny.CLASSIFIERS[name])


@EVERY
def test_empty_document(name):
    contract.check_empty_document(tiny.CLASSIFIERS[name])


@EVERY
def test_one_and_nine_thousand_labels(name):
    contract.check_label_counts(tiny.CLASSIFIERS[name])

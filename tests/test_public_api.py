"""The public names are a promise: adding one is a decision, losing one is a break."""

import hf_labelattn


def test_all_is_sorted_and_real():
    assert list(hf_labelattn.__all__) == sorted(hf_labelattn.__all__)
    for name in hf_labelattn.__all__:
        assert getattr(hf_labelattn, name) is not None


def test_version_follows_pep_440():
    assert hf_labelattn.__version__.split(".")[0].isdigit()

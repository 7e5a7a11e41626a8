"""The fast matching kernel against a literal transcription of the paper's equations."""

import pytest
import torch

from hf_labelattn.models import functional_matching as fm
from hf_labelattn.models.functional_matching import LabelWords, soft_ngram_match


def literal_match(label_vectors, document_vectors, columns, document_lengths, words):
    """Equation 2 before the sigmoid and the division, with one loop per index."""
    sums, starts = [], []
    for document, length in zip(columns.tolist(), document_lengths.tolist(), strict=True):
        for rows in words.rows.split(words.lengths.tolist()):
            windows = [
                sum(
                    label_vectors[row] @ document_vectors[document[k + j]]
                    for j, row in enumerate(rows.tolist())
                    if k + j < length
                )
                for k in range(length)
            ]
            if not windows or not len(rows):
                windows, start = [label_vectors.new_zeros(())], -1
            else:
                start = int(torch.stack(windows).argmax())
            sums.append(windows[max(start, 0)])
            starts.append(start)
    shape = (len(columns), len(words.lengths))
    return torch.stack(sums).reshape(shape), torch.tensor(starts).reshape(shape)


@pytest.fixture
def case():
    """Three documents (one empty), five labels (one without a description, one longer than a document)."""
    generator = torch.Generator().manual_seed(0)
    label_vectors = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    document_vectors = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    columns = torch.randint(0, 7, (3, 9), generator=generator)
    words = LabelWords(torch.arange(6), torch.tensor([0, 1, 5, 2, 3, 4, 5, 5, 0, 1, 5]), torch.tensor([2, 0, 1, 7, 1]))
    return label_vectors, document_vectors, columns, torch.tensor([9, 0, 5]), words


def test_sums_and_starts_are_the_papers(case):
    sums, starts = soft_ngram_match(*case)
    expected_sums, expected_starts = literal_match(*case)
    torch.testing.assert_close(sums, expected_sums)
    assert starts.tolist() == expected_starts.tolist()
    assert starts[1].tolist() == [-1] * 5 and starts[:, 1].tolist() == [-1] * 3


def test_gradient_is_that_of_the_literal_form(case):
    vectors = [t.clone().requires_grad_() for t in case[:2]]
    twins = [t.clone().requires_grad_() for t in case[:2]]
    weight = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (soft_ngram_match(*vectors, *case[2:])[0] * weight).sum().backward()
    (literal_match(*twins, *case[2:])[0] * weight).sum().backward()
    for vector, twin in zip(vectors, twins, strict=True):
        torch.testing.assert_close(vector.grad, twin.grad)
        assert vector.grad.abs().sum() > 0


def test_gradcheck(case):
    vectors = [t.clone().requires_grad_() for t in case[:2]]
    assert torch.autograd.gradcheck(lambda a, b: soft_ngram_match(a, b, *case[2:])[0], vectors)


def test_small_blocks_change_nothing(case, monkeypatch):
    """Documents in pieces of two widths, one label at a time: the same sums, starts and gradients."""
    vectors = [t.clone().requires_grad_() for t in case[:2]]
    whole = soft_ngram_match(*vectors, *case[2:])
    whole_grads = torch.autograd.grad(whole[0].sum(), vectors)
    monkeypatch.setattr(fm, "_BLOCK_TOKENS", 1)
    monkeypatch.setattr(fm, "_SUMS_BYTES", 200)
    cut = soft_ngram_match(*vectors, *case[2:])
    torch.testing.assert_close(cut[0], whole[0])
    assert cut[1].tolist() == whole[1].tolist()
    for grad, expected in zip(torch.autograd.grad(cut[0].sum(), vectors), whole_grads, strict=True):
        torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bag_sums_are_shifted_sums(dtype):
    """Both ways to add up windows agree; the last word of the last row at the last place is the corner of the view."""
    similarity = torch.randn(4, 12, dtype=dtype, generator=torch.Generator().manual_seed(0))
    words = LabelWords(torch.arange(4), torch.tensor([0, 2, 3, 1, 3, 3]), torch.tensor([3, 0, 1, 2]))
    arguments = (similarity, words.rows, words.place_of_term(), words.lengths, 3)
    bags, shifted = fm._bag_sums(*arguments), fm._shifted_sums(*arguments)
    torch.testing.assert_close(bags, shifted)
    torch.testing.assert_close(bags[0], similarity[0, :9] + similarity[2, 1:10] + similarity[3, 2:11])


def test_of_equal_windows_the_first_is_given():
    vectors = torch.eye(2)
    words = LabelWords.pack([torch.tensor([0, 1])])
    _, start = soft_ngram_match(vectors, vectors, torch.tensor([[1, 0, 1, 0, 1]]), torch.tensor([5]), words)
    assert start.item() == 1


def test_tokens_behind_the_end_do_not_count(case):
    columns = case[2].clone()
    columns[2, 5:] = 3
    sums, starts = soft_ngram_match(*case)
    again, starts_again = soft_ngram_match(*case[:2], columns, *case[3:])
    assert torch.equal(sums, again) and torch.equal(starts, starts_again)


def test_only_the_first_windows_can_be_asked_for(case):
    """Fewer starts, but the windows still reach to the end of the document."""
    sums, starts = soft_ngram_match(*case, num_windows=torch.tensor([2, 0, 5]))
    assert (starts[0] < 2).all() and starts[1].tolist() == [-1] * 5
    torch.testing.assert_close(sums[2], soft_ngram_match(*case)[0][2])
    whole = torch.stack([_sum_at(case, i, int(starts[0, i])) for i in (0, 2, 3, 4)])
    torch.testing.assert_close(sums[0, [0, 2, 3, 4]], whole)
    assert all((sums[0, i] >= _sum_at(case, i, k) - 1e-9) for i in (0, 2, 3, 4) for k in (0, 1))


def _sum_at(case, label, start):
    label_vectors, document_vectors, columns, lengths, words = case
    rows = words.rows.split(words.lengths.tolist())[label].tolist()
    tokens = columns[0, start : int(lengths[0])].tolist()
    return sum(label_vectors[r] @ document_vectors[c] for r, c in zip(rows, tokens, strict=False))


def test_memory_does_not_grow_with_labels_times_tokens():
    """A similarity matrix of 96 MB never exists when the budget is 8 MB; nor do the window sums of 32 MB."""
    generator = torch.Generator().manual_seed(0)
    label_vectors = torch.randn(6000, 2, generator=generator).requires_grad_()
    document_vectors = torch.randn(4000, 2, generator=generator)
    rows = torch.randint(0, 6000, (8000,), generator=generator)
    words = LabelWords(torch.arange(6000), rows, torch.full((2000,), 4))
    sizes = []
    with _LargestTensor(sizes):
        best, _ = soft_ngram_match(
            label_vectors, document_vectors, torch.arange(4000)[None], torch.tensor([4000]), words, max_memory_mb=8
        )
        best.sum().backward()
    assert max(sizes) <= 4 * 2**20


class _LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the bytes of every tensor an operation makes."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = out if isinstance(out, tuple | list) else (out,)
        self.sizes.extend(t.untyped_storage().nbytes() for t in tensors if isinstance(t, torch.Tensor))
        return out


def test_descriptions_survive_packing():
    descriptions = [torch.tensor([7, 3, 7]), torch.tensor([], dtype=torch.long), torch.tensor([-99, 3])]
    words = LabelWords.pack(descriptions)
    assert [d.tolist() for d in words.unpack()] == [d.tolist() for d in descriptions]
    assert words.label_of_term().tolist() == [0, 0, 0, 2, 2]
    assert words.place_of_term().tolist() == [0, 1, 2, 0, 1]
    assert words.sum_terms(torch.tensor([1.0, 10.0, 100.0])).tolist() == [210.0, 0.0, 11.0]


def test_unknown_words_match_by_identity_alone():
    label_keys = torch.tensor([-70, -50, 4])
    keys = torch.tensor([4, -50, -60])
    label_vectors = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    vectors = torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, 0.0]])
    left, right = fm.append_identity(label_vectors, label_keys, vectors, keys)
    expected = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.0, 0.0]])
    torch.testing.assert_close(left @ right.T, expected)


def test_surface_hashes_ignore_case_and_known_words():
    hashes = fm.surface_hashes("Zyrtec or ZYRTEC", [1, 9, 1], [(0, 6), (7, 9), (10, 16)], unk_token_id=1)
    assert hashes[0] == hashes[2] == fm.hash_word("zyrtec") and hashes[1] == 0
    assert fm.surface_hashes("Zyrtec", [1], [(0, 6)], unk_token_id=1, lowercase=False) == [fm.hash_word("Zyrtec")]
    assert fm.surface_hashes("[CLS]", [1], [(0, 0)], unk_token_id=1) == [0]


def test_hashes_fit_a_tensor_and_never_change():
    assert fm.hash_word("") > 0
    assert fm.hash_word("a") == 1 + 0xAF63DC4C8601EC8C % (2**62 - 1)  # a published FNV-1a value
    assert fm.hash_word("aneurysm") == int(torch.tensor(fm.hash_word("aneurysm")))
    assert fm.hash_word("aneurysm") == 3733832686283441861


def test_noisy_or_is_the_probability_of_either():
    first, second = torch.linspace(-4, 4, 9), torch.linspace(3, -5, 9)
    expected = 1 - (1 - first.sigmoid()) * (1 - second.sigmoid())
    torch.testing.assert_close(fm.add_probabilities(first, second).sigmoid(), expected)
    impossible = torch.full((9,), -torch.inf)
    torch.testing.assert_close(fm.add_probabilities(impossible, second), second)


def test_noisy_or_keeps_its_gradient_far_from_zero():
    first = torch.tensor([-80.0], requires_grad=True)
    fm.add_probabilities(first, torch.tensor([-120.0])).sum().backward()
    torch.testing.assert_close(first.grad, torch.ones(1))


def test_inverse_document_frequency_is_scikit_learns():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["a b", "a c c", "a d"]
    vectorizer = TfidfVectorizer(token_pattern=r"\w").fit(texts)
    counts = torch.tensor([sum(word in text.split() for text in texts) for word in sorted(vectorizer.vocabulary_)])
    expected = torch.tensor(vectorizer.idf_, dtype=torch.float32)
    torch.testing.assert_close(fm.inverse_document_frequency(counts, 3), expected)

"""The served linear model against a literal loop, and what a checkpoint and a stream of chunks must keep."""

import math
from collections import Counter

import pytest
import torch
from torch.testing import assert_close

from hf_labelattn.models.configuration_tfidf_linear import TfidfLinearConfig
from hf_labelattn.models.modeling_tfidf_linear import TfidfLinearForMultiLabel, label_shares

from .. import tiny

LABELS, UNK = 5, 1


def make_model(num_labels: int = LABELS, density: float = 0.5, **options) -> TfidfLinearForMultiLabel:
    """A model with random features: half of all bigrams without the unknown word, half of all weights."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.arange(tiny.VOCAB**2)
    known = (codes // tiny.VOCAB > UNK) & (codes % tiny.VOCAB > UNK)
    codes = codes[known & (torch.rand(len(codes), generator=generator) < 0.5)]
    codes = codes[:0] if options.get("max_ngram") == 1 else codes
    features = tiny.VOCAB + len(codes)
    dense = torch.randn(features, num_labels, generator=generator)
    dense[torch.rand(dense.shape, generator=generator) >= density] = 0
    idf = torch.rand(features, generator=generator) + 1
    idf[: UNK + 1] = dense[: UNK + 1] = 0
    config = TfidfLinearConfig(
        vocab_size=tiny.VOCAB,
        num_labels=num_labels,
        num_bigrams=len(codes),
        num_weights=int((dense != 0).sum()),
        **options,
    )
    calibrated = config.num_calibrated
    return TfidfLinearForMultiLabel(config).set_arrays(
        idf=idf,
        bigram_codes=codes,
        weight_starts=torch.cat([torch.zeros(1), (dense != 0).sum(1).cumsum(0)]),
        weight_labels=dense.nonzero()[:, 1],
        weight_values=dense[dense != 0],
        intercept=torch.randn(num_labels, generator=generator),
        calibration_scale=torch.rand(calibrated, generator=generator) + 1,
        calibration_offset=torch.randn(calibrated, generator=generator),
    )


def dense_weights(model: TfidfLinearForMultiLabel) -> torch.Tensor:
    dense = torch.zeros(model.config.num_features, model.config.num_labels)
    for feature, (start, end) in enumerate(zip(model.weight_starts, model.weight_starts[1:], strict=False)):
        dense[feature, model.weight_labels[start:end].long()] = model.weight_values[start:end]
    return dense


def literal_vector(model: TfidfLinearForMultiLabel, words: list[int]) -> dict[int, float]:
    """TF-IDF of one document by the book: feature to value."""
    place = {int(code): tiny.VOCAB + i for i, code in enumerate(model.bigram_codes)}
    pairs = [place.get(a * tiny.VOCAB + b) for a, b in zip(words, words[1:], strict=False)]
    counts = Counter(words) + Counter(pair for pair in pairs if pair is not None)
    weigh = (lambda n: 1 + math.log(n)) if model.config.sublinear_tf else float
    vector = {feature: weigh(n) * float(model.idf[feature]) for feature, n in counts.items()}
    length = math.sqrt(sum(value**2 for value in vector.values())) or 1.0
    return {feature: value / length for feature, value in vector.items()}


def literal_scores(model: TfidfLinearForMultiLabel, words: list[int]) -> torch.Tensor:
    weights = dense_weights(model)
    score = model.intercept.clone()
    for feature, value in literal_vector(model, words).items():
        score += value * weights[feature]
    return score


def batch(lengths=(21, 13, 5, 0, 1)) -> tuple[torch.Tensor, torch.Tensor]:
    """Documents with repeated and unknown words."""
    ids, mask = tiny.documents(lengths)
    ids = torch.where(ids > 20, ids % 20 + 1, ids) * mask  # few words, so that they repeat; 1 is unknown
    assert (ids == UNK).any()
    return ids, mask


@pytest.mark.parametrize("options", [{}, {"sublinear_tf": False}, {"max_ngram": 1}, {"calibration": "label"}])
def test_logits_equal_the_literal_loop(options):
    model, (ids, mask) = make_model(**options), batch()
    output = model(ids, mask)
    for row, words in enumerate(ids.flatten(1)):
        scores = literal_scores(model, words[mask[row].flatten().bool()].tolist())
        assert_close(model.decision_function(ids, mask)[row], scores, rtol=1e-5, atol=1e-5)
        logits = scores * model.calibration_scale + model.calibration_offset
        assert_close(output.logits[row], logits, rtol=1e-5, atol=1e-5)


def test_bigrams_reach_across_chunks():
    model, (ids, mask) = make_model(), batch()
    assert_close(model(ids.flatten(1), mask.flatten(1)).logits, model(ids, mask).logits)
    a, b = divmod(int(model.bigram_codes[7]), tiny.VOCAB)
    across = model.decision_function(torch.tensor([[[5, a], [b, 5]]]))[0]
    assert_close(across, literal_scores(model, [5, a, b, 5]))


def test_no_bigram_reaches_across_an_unknown_word():
    model = make_model()
    a, b = divmod(int(model.bigram_codes[7]), tiny.VOCAB)
    apart, beside = (model.decision_function(torch.tensor([words]))[0] for words in ([a, UNK, b], [UNK, a, b]))
    assert_close(apart, literal_scores(model, [a, UNK, b]))
    assert not torch.allclose(apart, beside)


def test_padding_anywhere_changes_nothing():
    model = make_model()
    words = [5, 6, 7, 5, 8]
    padded = torch.tensor([[0, 5, 6, 0, 0, 7, 5, 8, 0]])
    assert_close(model(padded).logits, model(torch.tensor([words])).logits)


def test_an_empty_document_gets_the_bias():
    model = make_model()
    bias = model.intercept * model.calibration_scale + model.calibration_offset
    for empty in (torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long), torch.tensor([[UNK]])):
        assert_close(model(empty).logits[0], bias)


@pytest.mark.parametrize("step", [1, 3, tiny.CHUNK])
def test_chunks_with_state_equal_the_whole(step):
    model, (ids, mask) = make_model(), batch()
    ids, mask = ids.flatten(1), mask.flatten(1)
    state = None
    for start in range(0, ids.shape[1], step):
        output = model(ids[:, start : start + step], mask[:, start : start + step], decoder_state=state)
        state = output.decoder_state
        assert_close(output.logits, model(ids[:, : start + step], mask[:, : start + step]).logits)
    assert_close(output.logits, model(ids, mask).logits)
    assert state.num_tokens.tolist() == mask.sum(1).tolist()


def test_small_memory_budget_changes_nothing(monkeypatch):
    model, (ids, mask) = make_model(), batch()
    whole, shares = model(ids, mask).logits, model.token_contributions(ids, mask)
    small = make_model(max_kernel_memory_mb=2)
    monkeypatch.setattr("hf_labelattn.models.modeling_tfidf_linear.BYTES_PER_WEIGHT", 2**20)  # two weights at a time
    monkeypatch.setattr("hf_labelattn.models.modeling_tfidf_linear.TABLE_SHARE", 2**15)  # three full rows
    found = small._features(small._occurrences(ids.flatten(1), mask.flatten(1)), len(ids))
    parts = small._memory_slices(found.feature)
    assert len(parts) > 20 and [parts[0].start, parts[-1].stop] == [0, len(found.feature)]
    assert_close(small(ids, mask).logits, whole)
    assert_close(small.token_contributions(ids, mask), shares)
    assert len(small._full_weights().table) == 3 and len(model._full_weights().table) > 100


def test_changed_weights_are_noticed():
    model, (ids, mask) = make_model(), batch()
    before = model.decision_function(ids, mask) - model.intercept
    model.weight_values *= 2
    assert_close(model.decision_function(ids, mask) - model.intercept, 2 * before)
    model.load_state_dict(make_model().state_dict())
    assert_close(model.decision_function(ids, mask) - model.intercept, before)


def test_contributions_add_up_to_the_logit():
    model, (ids, mask) = make_model(calibration="label"), batch()
    parts = model.token_contributions(ids, mask)
    empty = model(torch.zeros(1, 1, dtype=torch.long)).logits
    assert parts.shape == (5, LABELS, mask[0].numel())
    assert_close(parts.sum(2) + empty, model(ids, mask).logits, rtol=1e-4, atol=1e-5)
    assert not parts.masked_select(~mask.flatten(1)[:, None].bool()).any()
    assert_close(model.token_contributions(ids, mask, label_ids=[3, 1]), parts[:, [3, 1]])


def test_contributions_equal_the_literal_loop():
    model, words = make_model(), [5, 6, 5, 6, UNK, 7]
    weights, vector = dense_weights(model), literal_vector(model, words)
    place = {int(code): tiny.VOCAB + i for i, code in enumerate(model.bigram_codes)}
    grams = [(word, [i]) for i, word in enumerate(words)]
    grams += [
        (place.get(a * tiny.VOCAB + b), [i, i + 1]) for i, (a, b) in enumerate(zip(words, words[1:], strict=False))
    ]
    counts = Counter(feature for feature, _ in grams)
    expected = torch.zeros(LABELS, len(words))
    for feature, positions in grams:
        for position in positions if feature is not None else []:
            part = vector[feature] / counts[feature] / len(positions)
            expected[:, position] += part * weights[feature] * model.calibration_scale.item()
    assert_close(model.token_contributions(torch.tensor([words]))[0], expected, rtol=1e-4, atol=1e-6)


def test_attentions_are_shares_of_what_speaks_for_a_label():
    model, (ids, mask) = make_model(), batch((21, 13, 0))
    shares = model(ids, mask, output_attentions=True).label_attentions
    total = shares.sum(2)
    assert_close(total, torch.tensor([[1.0], [1.0], [0.0]]).expand_as(total))
    parts = model.token_contributions(ids, mask)
    assert (shares[parts < 0] == 0).all() and (shares >= 0).all()
    assert_close(shares[0], parts[0].clamp(min=0) / parts[0].clamp(min=0).sum(1, keepdim=True))


def test_attentions_with_state_cover_the_new_tokens():
    model, (ids, mask) = make_model(), batch((21, 13, 9))
    state = model(ids[:, :1], mask[:, :1]).decoder_state
    rest = model(ids[:, 1:], mask[:, 1:], decoder_state=state, output_attentions=True).label_attentions
    whole = model.token_contributions(ids, mask)[:, :, tiny.CHUNK :]
    assert_close(rest, label_shares(whole, mask.flatten(1)[:, tiny.CHUNK :]))


def test_checkpoint_round_trip(tmp_path):
    model, (ids, mask) = make_model(calibration="label", threshold=0.3), batch()
    model.save_pretrained(tmp_path)
    again = TfidfLinearForMultiLabel.from_pretrained(tmp_path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert_close(again(ids, mask).logits, model(ids, mask).logits)
    assert again.config.threshold == 0.3 and (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("options", [{"max_ngram": 1}, {"density": 0.0}, {"max_ngram": 1, "density": 0.0}])
def test_checkpoint_with_empty_arrays(tmp_path, options):
    model, (ids, mask) = make_model(**options), batch()
    model.save_pretrained(tmp_path)
    again = TfidfLinearForMultiLabel.from_pretrained(tmp_path)
    assert_close(again(ids, mask).logits, model(ids, mask).logits)


def test_what_a_file_lacks_is_initialised(tmp_path):
    model = make_model()
    kept = {name: tensor for name, tensor in model.state_dict().items() if name not in ("intercept", "weight_values")}
    model.save_pretrained(tmp_path, state_dict=kept)
    again = TfidfLinearForMultiLabel.from_pretrained(tmp_path)
    assert not again.intercept.any() and not again.weight_values.any()
    assert torch.equal(again.idf, model.idf) and torch.equal(again.calibration_scale, model.calibration_scale)


def test_without_a_fit_all_scores_are_zero():
    model = TfidfLinearForMultiLabel(TfidfLinearConfig(vocab_size=tiny.VOCAB, num_labels=3))
    assert not model(torch.tensor([[4, 5]])).logits.any()


def test_half_precision_stays_close():
    model, (ids, mask) = make_model(), batch()
    whole = model(ids, mask).logits
    output = model.half()(ids, mask)
    assert output.logits.dtype == torch.float32
    assert_close(output.logits, whole, rtol=1e-2, atol=1e-2)


def test_loss_has_a_gradient_in_the_calibration():
    model, (ids, mask) = make_model(calibration="label"), batch((21, 13, 5))
    output = model(ids, mask, labels=tiny.targets(3))
    output.loss.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())
    expected = torch.nn.functional.binary_cross_entropy_with_logits(output.logits, tiny.targets(3))
    assert_close(output.loss, expected)


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match=r"contains 60, but the model knows 60 words\. Tokenize with"):
        make_model()(torch.tensor([[2, 60]]))
    with pytest.raises(ValueError, match=r"`intercept` has shape \(3,\), expected \(5,\)"):
        make_model().set_arrays(intercept=torch.zeros(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_ngram": 3}, "`max_ngram` is 3, but must be 1"),
        ({"min_df": 0}, "`min_df` is 0, but must be at least 1"),
        ({"C": 0}, "`C` is 0, but must be above 0"),
        ({"prune_below": -0.1}, "`prune_below` is -0.1, but must be 0 or more"),
    ],
)
def test_wrong_configurations_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TfidfLinearConfig(**options)

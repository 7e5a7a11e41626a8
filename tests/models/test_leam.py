"""LEAM as a model: the paper end to end for every option, and what this library adds to it."""

import pytest
import torch
from torch.testing import assert_close

from hf_labelattn.models.configuration_leam import LEAMConfig
from hf_labelattn.models.functional_leam import phrase_scores
from hf_labelattn.models.modeling_leam import LEAMForSequenceClassification

from .. import tiny
from . import contract
from . import literal_leam as literal

SINGLE, MULTI = "single_label_classification", "multi_label_classification"
VARIANTS = {
    "paper": {"problem_type": SINGLE},
    "linear": {"problem_type": SINGLE, "phrase_conv": None},
    "clinical": {"encoder": "cnn", "encoder_width": 4, "phrase_conv": "depthwise"},
    "multi_label": {},
    "multi_label_max": {"pooling": "max"},
    "authors": {"problem_type": SINGLE, "phrase_conv": "full", "classifier_hidden_size": 7},
    "single_label_wise": {"problem_type": SINGLE, "pooling": "label", "phrase_conv": None},
    "cached": {"cache_similarity": True, "pooling": "max"},
}
EVERY = pytest.mark.parametrize("variant", VARIANTS)


def make(variant="multi_label", num_labels=5, **overrides):
    fields = {"vocab_size": tiny.VOCAB, "embedding_size": 6, "window": 2, "classifier_dropout": 0.0}
    fields |= {"chunk_size": tiny.CHUNK, "num_labels": num_labels, **VARIANTS[variant], **overrides}
    model = LEAMForSequenceClassification(LEAMConfig(**fields)).eval()
    # Biases and the neighbours in a phrase start at zero, where forgetting one would go unnoticed.
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "phrase_weight")):
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def truth(model, batch=3):
    if model.config.problem_type == SINGLE:
        return torch.arange(batch) % model.config.num_labels
    return tiny.targets(batch, model.config.num_labels)


def literal_logits(model, ids, mask):
    """Eq. (2)-(8) for one document at a time, in float64."""
    weights = {name: p.detach().double() for name, p in model.named_parameters()}
    parts = [weights.get(f"attention.{n}") for n in ("label_embeddings", "phrase_weight", "phrase_bias")]
    rows = []
    for row, real in zip(ids.flatten(1), mask.flatten(1).bool(), strict=True):
        words = literal_encoder(model, weights, weights["embeddings.weight"][row[real]])
        means = literal.mean(words, literal.attention(words, *parts, model.config.pooling))
        rows.append(literal_classify(weights, means, model.config.pooling))
    return torch.stack(rows)


def literal_encoder(model, weights, words):
    if model.config.encoder == "identity":
        return words
    kernel, bias = weights["encoder.convolutions.0.weight"], weights["encoder.convolutions.0.bias"]
    left = (kernel.shape[2] - 1) // 2
    out = []
    for position in range(len(words)):
        total = bias.clone()
        for j in range(kernel.shape[2]):
            if 0 <= position + j - left < len(words):
                total += kernel[:, :, j] @ words[position + j - left]
        out.append(total.clamp(min=0))
    return torch.stack(out)


def literal_classify(weights, means, pooling):
    w2, b2 = weights["classifier.weight"], weights["classifier.bias"]
    if pooling == "label":
        return torch.stack([w2[k] @ means[k] + b2[k] for k in range(len(b2))])
    z = means[0]
    if "hidden.weight" in weights:
        z = (weights["hidden.weight"] @ z + weights["hidden.bias"]).clamp(min=0)
    return w2 @ z + b2


@EVERY
def test_logits_are_the_papers(variant):
    model, (ids, mask) = make(variant), tiny.documents()
    assert_close(contract.logits(model, ids, mask).double(), literal_logits(model, ids, mask), atol=1e-5, rtol=1e-4)


@EVERY
def test_training_loss_is_equations_7_to_9(variant):
    model, (ids, mask) = make(variant, regulariser_weight=0.5), tiny.documents()
    weights = {name: p.detach().double() for name, p in model.named_parameters()}
    problem, labels = model.config.problem_type, truth(model)
    loss = {SINGLE: literal.cross_entropy, MULTI: literal.binary_cross_entropy}[problem]
    own = torch.stack([loss(row, y) for row, y in zip(literal_logits(model, ids, mask), labels, strict=True)]).mean()

    def classify(label):
        return literal_classify(weights, label[None], "max")

    penalty = literal.regulariser(weights["attention.label_embeddings"], classify, problem)
    assert_close(model.eval()(ids, mask, labels=labels).loss.double(), own, atol=1e-5, rtol=1e-4)
    assert_close(model.train()(ids, mask, labels=labels).loss.double(), own + 0.5 * penalty, atol=1e-5, rtol=1e-4)


@EVERY
@pytest.mark.parametrize("promise", ["padding", "batch", "attentions", "empty_document", "tuple", "windows"])
def test_contract(variant, promise):
    def build(**overrides):
        return make(variant, **{**overrides, "problem_type": MULTI, "pooling": make(variant).config.pooling})

    getattr(contract, f"check_{promise}")(build)


@EVERY
def test_save_and_load(variant, tmp_path):
    contract.check_save_and_load(lambda **kwargs: make(variant, **kwargs), tmp_path)


def test_many_labels_train_in_a_small_budget():
    contract.check_label_counts(lambda **kwargs: make("multi_label", max_kernel_memory_mb=1, **kwargs).train())
    contract.check_label_counts(lambda **kwargs: make("multi_label_max", max_kernel_memory_mb=1, **kwargs).train())
    contract.check_label_counts(lambda **kwargs: make("clinical", pooling="max", max_kernel_memory_mb=1, **kwargs))


@EVERY
def test_gradient_reaches_every_parameter_and_four_notes_are_learned(variant):
    model, (ids, mask) = make(variant).train(), tiny.documents((21, 17, 9, 12))
    labels = truth(model, 4)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for step in range(40):
        optimizer.zero_grad()
        model(ids, mask, labels=labels).loss.backward()
        if step == 0:
            dead = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
            assert not dead
        optimizer.step()
    logits = contract.logits(model, ids, mask)
    learned = logits.argmax(1) == labels if model.config.problem_type == SINGLE else (logits > 0) == labels.bool()
    assert learned.all()


@EVERY
def test_reading_on_from_a_state_equals_reading_the_whole(variant):
    model, (ids, mask) = make(variant), tiny.documents((21, 13, 5))
    state = None
    for chunk in range(ids.shape[1]):
        output = model(ids[:, chunk], mask[:, chunk], decoder_state=state, output_attentions=True)
        state = output.decoder_state
    whole = model(ids, mask, output_attentions=True)
    assert_close(output.logits, whole.logits)
    assert_close(output.label_attentions, whole.label_attentions)
    assert state.num_tokens.tolist() == [21, 13, 5]


def test_hidden_states_are_the_word_vectors():
    model, (ids, mask) = make("cached"), tiny.documents()
    with torch.no_grad():
        output = model(ids, mask, output_hidden_states=True)
    assert_close(output.hidden_states, model.embeddings(ids.flatten(1)).detach())


@pytest.mark.parametrize("variant", ["paper", "clinical", "multi_label"])
def test_document_vectors_are_equation_6(variant):
    model, (ids, mask) = make(variant), tiny.documents()
    with torch.no_grad():
        output = model(ids, mask, output_attentions=True, output_hidden_states=True)
        vectors = model.document_vectors(ids, mask)
    expected = output.label_attentions @ output.hidden_states
    assert_close(vectors, expected if model.config.pooling == "label" else expected[:, 0])


class TestCache:
    """The vocabulary tables of evaluation mode."""

    @pytest.mark.parametrize("variant", ["paper", "linear", "multi_label", "single_label_wise"])
    @torch.no_grad()
    def test_gives_the_same_answers(self, variant):
        model, (ids, mask) = make(variant), tiny.documents((21, 13, 0))
        plain = model(ids, mask, output_attentions=True)
        model.config.cache_similarity = True
        cached = model(ids, mask, output_attentions=True)
        assert model._tables is not None
        assert_close(cached.logits, plain.logits)
        assert_close(cached.label_attentions, plain.label_attentions)

    @pytest.mark.parametrize("weight", ["embeddings.weight", "attention.label_embeddings", "classifier.weight"])
    @torch.no_grad()
    def test_is_renewed_when_a_weight_changes(self, weight):
        model, (ids, mask) = make("cached"), tiny.documents()
        before = model(ids, mask).logits
        model.get_parameter(weight).add_(torch.randn_like(model.get_parameter(weight)))
        after = model(ids, mask).logits
        model.config.cache_similarity = False
        assert not torch.allclose(before, after)
        assert_close(after, model(ids, mask).logits)

    @torch.no_grad()
    def test_is_renewed_when_the_model_is_moved_or_loaded(self):
        model, (ids, mask) = make("cached"), tiny.documents()
        single = model(ids, mask).logits
        assert_close(model.double()(ids, mask).logits, single, atol=1e-5, rtol=1e-4)
        other = make("cached").double()
        model.load_state_dict(other.state_dict())
        assert_close(model(ids, mask).logits, other(ids, mask).logits)

    def test_is_left_out_of_training_gradients_and_checkpoints(self):
        model, (ids, mask) = make("cached"), tiny.documents()
        model(ids, mask)
        assert model._tables is None
        with torch.no_grad():
            model(ids, mask)
        assert model._tables is not None and not [n for n in model.state_dict() if "table" in n]
        assert model.train()._tables is None
        with torch.no_grad():
            model(ids, mask)
        assert model._tables is None

    @torch.no_grad()
    def test_stays_within_the_budget(self):
        model, (ids, mask) = make("cached", num_labels=3000, max_kernel_memory_mb=1), tiny.documents()
        expected = make("multi_label_max", num_labels=3000)
        expected.load_state_dict(model.state_dict())
        assert_close(model(ids, mask).logits, expected(ids, mask).logits)
        assert model._tables is None

    @torch.no_grad()
    def test_is_left_alone_when_a_batch_is_too_long_for_it(self):
        model, (ids, mask) = make("cached", max_kernel_memory_mb=1), tiny.documents((9000,))
        model(ids, mask)
        assert model._tables is None
        model(ids[:, :10], mask[:, :10])
        assert model._tables is not None

    @pytest.mark.parametrize("variant", ["clinical", "authors"])
    @torch.no_grad()
    def test_is_left_alone_where_words_are_not_the_whole_story(self, variant):
        model, (ids, mask) = make(variant), tiny.documents()
        plain = model(ids, mask).logits
        model.config.cache_similarity = True
        assert_close(model(ids, mask).logits, plain)
        assert model._tables is None

    @torch.inference_mode()
    def test_works_in_inference_mode(self):
        model, (ids, mask) = make("cached"), tiny.documents()
        first = model(ids, mask).logits
        assert_close(model(ids, mask).logits, first)


class TestLabelStart:
    """Where label embeddings come from."""

    def test_mean_word_vector_of_the_description(self):
        model = make()
        gaussian = model.attention.label_embeddings[3].detach().clone()
        assert model.set_label_descriptions([[5, 7], [5, 1], [0, 9, 0], [1, 0], []], ignore_ids=(1,)) == 3
        words, labels = model.embeddings.weight, model.attention.label_embeddings
        assert_close(labels[0], (words[5] + words[7]) / 2)
        assert_close(labels[1], words[5])
        assert_close(labels[2], words[9])
        assert_close(labels[3], gaussian)

    def test_given_matrix_and_unknown_rows(self):
        model = make(num_labels=2)
        kept = model.attention.label_embeddings[1].detach().clone()
        assert model.set_label_embeddings([[1.0] * 6, [0.0] * 6]) == 1
        assert_close(model.attention.label_embeddings.detach(), torch.stack([torch.ones(6), kept]))

    def test_wrong_shape_is_refused(self):
        with pytest.raises(ValueError, match=r"The label matrix is \[3, 6\].*pass \[5, 6\]"):
            make().set_label_embeddings(torch.zeros(3, 6))

    def test_standard_gaussian_without_descriptions(self):
        labels = make(num_labels=500, embedding_size=60).attention.label_embeddings
        assert abs(labels.mean()) < 0.02 and abs(labels.std() - 1) < 0.02


def test_parameters_beyond_the_word_table_are_those_of_the_paper():
    model = make("paper", num_labels=10, embedding_size=300, window=50)
    counts = model.parameter_counts()
    assert counts["beyond_words"] == literal.parameter_count(num_labels=10, size=300, window=50) == 6121
    assert counts["labels"] == 3000 and counts["words"] == tiny.VOCAB * 300
    assert counts["total"] == model.num_parameters()
    assert make("authors", num_labels=10, embedding_size=300, window=27).parameter_counts()["hidden"] == 300 * 7 + 7


def test_same_seed_same_weights_and_dropout():
    ids, mask = tiny.documents()
    losses = []
    for _ in range(2):
        torch.manual_seed(5)
        model = make("paper", classifier_dropout=0.5).train()
        losses.append(model(ids, mask, labels=truth(model)).loss.item())
    assert losses[0] == losses[1]


@EVERY
def test_bfloat16_stays_close(variant):
    model, (ids, mask) = make(variant), tiny.documents((21, 13, 0))
    expected = contract.logits(model, ids, mask)
    half = contract.logits(model.bfloat16(), ids, mask)
    assert half.dtype == torch.float32
    assert_close(half, expected, atol=0.1, rtol=0.1)
    model.train()(ids, mask, labels=truth(model)).loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("phrase_conv", ["shared", "depthwise", "full"])
def test_a_phrase_starts_as_its_middle_word(phrase_conv, tmp_path):
    fields = {"vocab_size": tiny.VOCAB, "embedding_size": 6, "window": 2, "num_labels": 4, "sharpness": 3.0}
    model = LEAMForSequenceClassification(LEAMConfig(phrase_conv=phrase_conv, **fields))
    _, weight, bias = (part.detach() for part in model.attention.parts())
    similarity = torch.rand(2, 4, 9) - 0.5
    assert_close(phrase_scores(similarity, weight, bias), 3 * similarity.relu())
    with torch.no_grad():
        model.attention.phrase_weight.add_(1.0)
    model.save_pretrained(tmp_path)
    loaded = LEAMForSequenceClassification.from_pretrained(tmp_path)
    assert_close(loaded.attention.phrase_weight, model.attention.phrase_weight)


class TestConfig:
    """Defaults that depend on the problem, and what is refused."""

    def test_defaults_follow_the_problem(self):
        multi, single = LEAMConfig(), LEAMConfig(problem_type=SINGLE)
        assert (multi.pooling, multi.regulariser_weight, multi.sharpness) == ("label", 0.0, 5)
        assert (single.pooling, single.regulariser_weight, single.sharpness) == ("max", 1.0, 1)
        assert LEAMConfig(problem_type=SINGLE, pooling="label", regulariser_weight=0.0).pooling == "label"

    def test_survives_a_round_trip(self, tmp_path):
        config = LEAMConfig(phrase_conv=None, window=7, pooling="max", num_labels=3)
        config.save_pretrained(tmp_path)
        assert LEAMConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"problem_type": "regression"}, "LEAM classifies"),
            ({"window": -1}, "`window` is -1, but must be at least 0"),
            ({"sharpness": -1}, "`sharpness` is -1, but must be at least 0"),
            ({"classifier_dropout": 1.0}, "from 0 to below 1"),
            ({"classifier_hidden_size": 8}, "pass `classifier_hidden_size=0` or `pooling='max'`"),
            ({"phrase_conv": "full", "num_labels": 9000}, "use `phrase_conv='shared'`"),
            ({"phrase_conv": "both"}, "phrase_conv"),
            ({"pooling": "mean"}, "pooling"),
        ],
    )
    def test_refuses(self, fields, message):
        with pytest.raises(Exception, match=message):
            LEAMConfig(**fields)

"""PLANT equals the paper's equations, written out token by token, for every option; streams equal wholes."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from hf_labelattn.models.configuration_plant import PlantConfig
from hf_labelattn.models.modeling_plant import PlantForICDCoding, reverse_chunks

from .. import tiny

BERT = tiny.bert_config().to_dict()
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def threshold(scores, k, mode):
    """Appendix A.3: keep the k largest; the rest is masked out ("mask") or set to zero ("zero", as printed)."""
    if len(scores) <= k:
        return scores
    if mode == "mask":  # of equal scores (the same word twice) the earlier survives
        kept = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
        return [s if i in kept else -math.inf for i, s in enumerate(scores)]
    kth = sorted(scores, reverse=True)[k - 1]
    return [s if s > kth else 0.0 for s in scores]


def softmax(scores):
    top = max(scores)
    exponents = [math.exp(s - top) for s in scores]
    return [e / sum(exponents) for e in exponents]


def pair_score(ranker, label, token):
    """Equation 7: two layers on the concatenated embeddings."""
    joined = torch.cat([ranker.label_embedding.weight[label], ranker.token_embedding.weight[token]])
    first = torch.cat([ranker.label_projection.weight, ranker.token_projection.weight], dim=1)
    return float(ranker.output @ torch.relu(first @ joined + ranker.token_projection.bias))


def static_relevance(decoder, label, token):
    span = slice(decoder.relevance_starts[label], decoder.relevance_starts[label + 1])
    found = dict(zip(decoder.relevance_tokens[span].tolist(), decoder.relevance_values[span].tolist(), strict=True))
    return found.get(token, 0.0)


def chunk_score(model, hidden, tokens, label):
    """Equations 3-6 for one chunk and one label, without the bias."""
    config, decoder = model.config, model.reader.decoder
    total = [0.0] * len(tokens)
    if config.use_learned:
        weights = softmax([float(h @ decoder.query[label]) for h in hidden])
        total = [a + b for a, b in zip(total, weights, strict=True)]
    if config.use_static:
        weights = [static_relevance(decoder, label, token) for token in tokens]
        norm = sum(weights) if config.static_norm == "l1" and sum(weights) > 0 else 1.0
        total = [a + b / norm for a, b in zip(total, weights, strict=True)]
    if config.use_planted:
        scores = [pair_score(decoder.ranker, label, token) for token in tokens]
        weights = softmax(threshold(scores, config.inattention_k, config.inattention_mode))
        total = [a + b for a, b in zip(total, weights, strict=True)]
    amount = 0.0
    if config.use_evidence:
        amount = float(decoder.evidence[label]) * sum(static_relevance(decoder, label, token) for token in tokens)
    vector = sum(weight * h for weight, h in zip(total, hidden, strict=True))
    return float((vector * decoder.weight[label]).sum()) + amount


def literal_logits(model, tokens):
    """A document's logits: chunk after chunk, label after label."""
    config, carried, chunks = model.config, None, []
    for start in range(0, len(tokens), config.chunk_size):
        part = tokens[start : start + config.chunk_size]
        output = model.reader.encoder(torch.tensor([part]), hidden_state=None if config.state == "none" else carried)
        carried = output.hidden_state
        labels = range(config.num_labels)
        chunks.append([chunk_score(model, output.last_hidden_state[0], part, label) for label in labels])
    return [combine([c[label] for c in chunks], float(model.label_bias[label]), config.state) for label in labels]


def combine(scores, bias, state):
    if state == "logit_sum":
        return sum(scores) + bias
    if state == "max":
        return max(scores) + bias
    if state == "none":
        return sum(scores) / len(scores) + bias
    probability = 0.0
    for score in scores:
        logit = score + bias + probability
        probability = 1 / (1 + math.exp(-logit))
    return logit


SWITCHES = [s for s in itertools.product([True, False], repeat=3) if any(s)]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@torch.no_grad()
def test_each_attention_alone_and_together(switches):
    learned, static, planted = switches
    model = tiny.plant(use_learned=learned, use_static=static, use_planted=planted)()
    check(model)


@pytest.mark.parametrize("mode", ["mask", "zero"])
@pytest.mark.parametrize("norm", ["l1", "none"])
@torch.no_grad()
def test_inattention_and_static_norm(mode, norm):
    check(tiny.plant(inattention_mode=mode, static_norm=norm, inattention_k=4)())


@pytest.mark.parametrize("state", ["logit_sum", "sigmoid", "max", "none"])
@torch.no_grad()
def test_states(state):
    check(tiny.plant(state=state)())


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("state", ["logit_sum", "sigmoid", "max", "none"])
@torch.no_grad()
def test_evidence_adds_the_amount_of_relevance(state, static):
    model = tiny.plant(state=state, use_static=static, use_evidence=True)()
    model.reader.decoder.evidence.normal_()
    check(model)


def test_evidence_is_left_out_of_whole_documents_in_training_only():
    model = tiny.plant(use_evidence=True, evidence_dropout=0.5)()
    ids, mask = tiny.documents((21,) * 40)
    decoder = model.reader.decoder
    whole = decoder.evidence_scores(ids, mask)
    found = decoder.train().evidence_scores(ids, mask)
    kept = (found == whole).all((1, 2)) & (whole != 0).any(2).any(1)
    gone = (found == 0).all((1, 2))
    assert (kept | gone).all() and kept.any() and (gone & (whole != 0).any(2).any(1)).any()


def check(model):
    model.label_bias.normal_()
    ids, mask = tiny.documents((21, 13))
    found = model(ids, mask).logits
    for row in range(2):
        tokens = ids[row][mask[row].bool()].tolist()
        assert_close(found[row], torch.tensor(literal_logits(model, tokens)), **CLOSE)


@pytest.mark.parametrize("state", ["logit_sum", "sigmoid", "max"])
@torch.no_grad()
def test_a_note_coded_while_it_is_written_equals_the_note_coded_whole(state):
    model = tiny.plant(state=state)()
    ids, mask = tiny.documents((24,))
    whole, carried = model(ids, mask).logits, None
    for chunk in ids.unbind(1):
        output = model.step(chunk, carried)
        carried = output.decoder_state
    assert_close(output.logits, whole, **CLOSE)
    assert carried.num_tokens.tolist() == [24]


@pytest.mark.parametrize("name", ["plant", "plant_bert", "plm_icd", "caml"])
@torch.no_grad()
def test_a_long_row_is_cut_like_the_collator_cuts_it(name):
    model, (ids, mask) = tiny.CLASSIFIERS[name](), tiny.documents((21, 9))
    assert_close(model(ids.flatten(1)[:, :21], mask.flatten(1)[:, :21]).logits, model(ids, mask).logits, **CLOSE)


@torch.no_grad()
def test_backward_reads_the_reversed_document():
    forward, backward = tiny.plant()(), tiny.plant(direction="backward")()
    backward.load_state_dict(forward.state_dict())
    ids, mask = tiny.documents()
    assert_close(backward(ids, mask).logits, forward(*reverse_chunks(ids, mask.bool())).logits)
    assert not torch.allclose(backward(ids, mask).logits, forward(ids, mask).logits)


@torch.no_grad()
def test_the_pair_averages_probabilities_and_lives_in_one_folder(tmp_path):
    forward, backward = tiny.plant()(), tiny.plant(direction="backward")()
    pair = PlantForICDCoding.join(forward, backward)
    ids, mask = tiny.documents()
    mean = (forward(ids, mask).logits.sigmoid() + backward(ids, mask).logits.sigmoid()) / 2
    assert_close(pair(ids, mask).logits.sigmoid(), mean, **CLOSE)
    pair.save_pretrained(tmp_path)
    assert_close(PlantForICDCoding.from_pretrained(tmp_path)(ids, mask).logits.sigmoid(), mean, **CLOSE)


def test_two_forward_models_are_no_pair():
    with pytest.raises(ValueError, match="needs a forward and a backward model, found 'forward' and 'forward'"):
        PlantForICDCoding.join(tiny.plant()(), tiny.plant()())


@torch.no_grad()
def test_attention_of_chosen_labels_is_the_same_as_of_all():
    model, (ids, mask) = tiny.plant()(), tiny.documents()
    every = model(ids, mask, output_attentions=True).label_attentions
    some = model(ids, mask, output_attentions=True, attention_labels=torch.tensor([3, 1])).label_attentions
    assert_close(some, every[:, [3, 1]])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"use_learned": False, "use_static": False, "use_planted": False}, "All three attentions are off"),
        ({"encoder_config": tiny.bert_config().to_dict(), "chunk_size": 20}, "reads at most 16 tokens at once"),
        (
            {"encoder_config": tiny.bert_config().to_dict(), "chunk_size": 8, "direction": "backward"},
            "Only an AWD-LSTM",
        ),
    ],
)
def test_impossible_settings_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PlantConfig(num_labels=2, **fields)


def test_what_reads_backward_cannot_be_streamed():
    model, (ids, mask) = tiny.plant(backward=True)(), tiny.documents((8,))
    state = model(ids, mask).decoder_state
    with pytest.raises(ValueError, match="needs the whole document at once"):
        model(ids, mask, decoder_state=state)


def test_memory_of_a_window_is_all_a_long_document_needs():
    """The gradient of a document read in windows is that of the document read whole (up to truncation at borders)."""
    model, (ids, mask) = tiny.plant()(), tiny.documents((40, 30))
    truth = tiny.targets(2)
    model(ids, mask, labels=truth).loss.backward()
    whole = model.reader.decoder.weight.grad.clone()
    model.zero_grad()
    model.config.bptt_chunks = 2
    model(ids, mask, labels=truth).loss.backward()
    assert_close(model.reader.decoder.weight.grad, whole, **CLOSE)

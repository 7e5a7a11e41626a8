"""AWD-LSTM against an LSTM written out step by step, and the promises the classifiers rely on."""

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from hf_labelattn.models.configuration_awd_lstm import DROPOUTS, AwdLstmConfig
from hf_labelattn.models.encoders import reverse_rows
from hf_labelattn.models.modeling_awd_lstm import (
    AwdLstmForCausalLM,
    AwdLstmModel,
    detach_state,
    dropout_mask,
    masked_mean,
)

SIZES = {"vocab_size": 23, "embedding_size": 6, "hidden_size": 9, "num_hidden_layers": 3}
NO_DROPOUT = dict.fromkeys(DROPOUTS, 0.0)
NO_PENALTY = {"activation_regularization": 0.0, "temporal_activation_regularization": 0.0}


def make_model(cls=AwdLstmForCausalLM, **fields):
    torch.manual_seed(0)
    return cls(AwdLstmConfig(**{**SIZES, **NO_DROPOUT, **NO_PENALTY, **fields})).eval()


def make_words(batch=4, length=11, seed=1):
    return torch.randint(1, SIZES["vocab_size"], (batch, length), generator=torch.Generator().manual_seed(seed))


def literal_step(x, h, c, layer, recurrent):
    """One step of one LSTM cell, gate by gate."""
    size = h.shape[1]
    gates = x @ layer.weight_ih_l0.T + layer.bias_ih_l0 + h @ recurrent.T + layer.bias_hh_l0
    i, f, g, o = (gates[:, k * size : (k + 1) * size] for k in range(4))
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def literal_logits(model, words, draw):
    """The language model as the paper writes it: masks are drawn in reading order, cells are looped over in Python."""
    config, encoder = model.config, model.encoder
    batch, length = words.shape
    vectors = encoder.embed_tokens.weight * draw("embedding_dropout", (config.vocab_size, 1))
    inputs = [vectors[words[:, t]] for t in range(length)]
    mask = draw("input_dropout", (batch, 1, config.embedding_size))[:, 0]
    inputs = [x * mask for x in inputs]
    for k, layer in enumerate(encoder.layers):
        recurrent = layer.weight_hh_l0 * draw("weight_dropout", layer.weight_hh_l0.shape)
        h = c = torch.zeros(batch, layer.hidden_size, dtype=vectors.dtype)
        outputs = []
        for x in inputs:
            h, c = literal_step(x, h, c, layer, recurrent)
            outputs.append(h)
        if k < len(encoder.layers) - 1:
            mask = draw("hidden_dropout", (batch, 1, layer.hidden_size))[:, 0]
            outputs = [h * mask for h in outputs]
        inputs = outputs
    mask = draw("output_dropout", (batch, 1, config.embedding_size))[:, 0]
    return torch.stack([(x * mask) @ encoder.embed_tokens.weight.T + model.lm_head.bias for x in inputs], 1)


def fixed_masks(model):
    """Draws the masks that the model draws after the same seed: none where a rate is zero."""

    def draw(name, shape):
        rate = model.config.dropout(name)
        like = model.lm_head.weight
        return dropout_mask(like, tuple(shape), rate) if rate else torch.ones(tuple(shape), dtype=like.dtype)

    return draw


@pytest.mark.parametrize(
    "dropouts", [(), *[(name,) for name in DROPOUTS], DROPOUTS], ids=lambda d: "+".join(d) or "none"
)
def test_logits_and_gradients_equal_a_literal_lstm(dropouts):
    model = make_model(**dict.fromkeys(dropouts, 0.4)).double().train()
    words = make_words()
    torch.manual_seed(7)
    logits = model(words).logits
    torch.manual_seed(7)
    expected = literal_logits(model, words, fixed_masks(model))
    torch.testing.assert_close(logits, expected)
    weights = torch.randn(logits.shape, dtype=logits.dtype)
    found = torch.autograd.grad((logits * weights).sum(), list(model.parameters()))
    wanted = torch.autograd.grad((expected * weights).sum(), list(model.parameters()))
    for (name, _), gradient, literal in zip(model.named_parameters(), found, wanted, strict=True):
        torch.testing.assert_close(gradient, literal, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("rate", [0.02, 0.25, 0.5])
def test_masks_drop_the_stated_share_and_keep_the_mean(rate):
    torch.manual_seed(0)
    mask = dropout_mask(torch.empty(()), (501, 401), rate)
    assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=0.005)
    assert mask.mean().item() == pytest.approx(1.0, abs=0.01)
    assert mask.unique().numel() == 2


def test_locked_dropout_is_the_same_at_all_positions_and_differs_between_rows():
    model = make_model(AwdLstmModel, input_dropout=0.5).train()
    embedded = torch.ones(8, 5, SIZES["embedding_size"])
    dropped = model.input_dropout(embedded)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert len(dropped[:, 0].unique(dim=0)) > 1


def test_embedding_dropout_drops_whole_words_everywhere():
    model = make_model(AwdLstmModel, embedding_dropout=0.5).train()
    words = make_words(6, 50)
    kept = model.embed_tokens(words).ne(0).any(-1)
    for word in words.unique():
        assert len(kept[words == word].unique()) == 1
    assert 0 < kept.float().mean() < 1


def test_evaluation_mode_drops_nothing_and_training_mode_does():
    model = make_model(**dict.fromkeys(DROPOUTS, 0.5), **{"activation_regularization": 2.0})
    words = make_words()
    assert torch.equal(model(words).logits, model(words).logits)
    plain = make_model()
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(words, labels=words).loss, plain(words, labels=words).loss)
    model.train()
    assert not torch.equal(model(words).logits, model(words).logits)


def test_dropout_multiplier_scales_every_rate():
    config = AwdLstmConfig(**SIZES, dropout_multiplier=0.5)
    model = AwdLstmForCausalLM(config)
    rates = [model.encoder.embed_tokens.rate, model.encoder.input_dropout.rate, model.encoder.layers[0].rate]
    rates += [model.encoder.hidden_dropout.rate, model.output_dropout.rate]
    assert rates == [0.01, 0.125, 0.1, 0.075, 0.05]


def test_a_stream_read_in_chunks_of_70_equals_the_stream_read_whole():
    model, words = make_model(), make_words(2, 350)
    whole = model(words)
    state, logits = None, []
    for chunk in words.split(70, dim=1):
        output = model(chunk, hidden_state=state)
        state = output.hidden_state
        logits.append(output.logits)
    torch.testing.assert_close(torch.cat(logits, 1), whole.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(state, whole.hidden_state, atol=1e-5, rtol=1e-5)


def test_gradients_flow_through_the_state_until_the_caller_detaches_it():
    model, words = make_model(), make_words(2, 12)
    whole = torch.autograd.grad(model(words).logits[:, 6:].sum(), model.encoder.layers[0].weight_hh_l0)[0]
    first = model(words[:, :6])
    carried = model(words[:, 6:], hidden_state=first.hidden_state).logits.sum()
    torch.testing.assert_close(
        torch.autograd.grad(carried, model.encoder.layers[0].weight_hh_l0, retain_graph=True)[0], whole
    )
    cut = model(words[:, 6:], hidden_state=detach_state(first.hidden_state)).logits.sum()
    assert not torch.allclose(torch.autograd.grad(cut, model.encoder.layers[0].weight_hh_l0)[0], whole)


@pytest.mark.parametrize("lengths", [(11, 11), (11, 4), (3, 1, 7), (5, 0), (0, 0)])
def test_padding_changes_neither_outputs_nor_states_nor_gradients(lengths):
    model = make_model(AwdLstmModel).double()
    words = make_words(len(lengths), 11)
    mask = (torch.arange(11) < torch.tensor(lengths)[:, None]).long()
    before = tuple((torch.randn(len(lengths), n).double(), torch.randn(len(lengths), n).double()) for n in (9, 9, 6))
    batched = model(words * mask, mask, before)
    assert torch.equal(batched.last_hidden_state[mask == 0], torch.zeros(int((mask == 0).sum()), 6).double())
    alone = torch.zeros((), dtype=torch.double)
    for row, length in enumerate(lengths):
        state = tuple((h[row : row + 1], c[row : row + 1]) for h, c in before)
        if length:
            single = model(words[row : row + 1, :length], hidden_state=state)
            torch.testing.assert_close(batched.last_hidden_state[row, :length], single.last_hidden_state[0])
            state = single.hidden_state
        for (h, c), (h_alone, c_alone) in zip(batched.hidden_state, state, strict=True):
            torch.testing.assert_close(h[row], h_alone[0])
            torch.testing.assert_close(c[row], c_alone[0])
            alone = alone + (h_alone**2).sum() + (c_alone**3).sum()
    if any(lengths):
        together = sum((h**2).sum() + (c**3).sum() for h, c in batched.hidden_state)
        parameters = [p for name, p in model.named_parameters()]
        for found, wanted in zip(
            torch.autograd.grad(together, parameters), torch.autograd.grad(alone, parameters), strict=True
        ):
            torch.testing.assert_close(found, wanted)


def test_a_chunk_of_padding_leaves_the_state_exactly_as_it_was():
    model, words = make_model(AwdLstmModel), make_words(3, 8)
    state = model(words).hidden_state
    after = model(torch.zeros_like(words), torch.zeros_like(words), state).hidden_state
    for (h, c), (h_before, c_before) in zip(after, state, strict=True):
        assert torch.equal(h, h_before) and torch.equal(c, c_before)


def test_documents_in_ragged_chunks_equal_documents_read_alone():
    model, lengths = make_model(AwdLstmModel), (19, 5, 12)
    words = make_words(3, 20)
    mask = (torch.arange(20) < torch.tensor(lengths)[:, None]).long()
    state, outputs = None, []
    for ids, part in zip(words.split(5, 1), mask.split(5, 1), strict=True):
        output = model(ids, part, state)
        state = output.hidden_state
        outputs.append(output.last_hidden_state)
    outputs = torch.cat(outputs, 1)
    for row, length in enumerate(lengths):
        alone = model(words[row : row + 1, :length])
        torch.testing.assert_close(outputs[row, :length], alone.last_hidden_state[0], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(state[-1][1][row], alone.hidden_state[-1][1][0], atol=1e-6, rtol=1e-5)


def test_a_backward_reader_gets_its_document_reversed_before_it_is_cut_into_chunks():
    model = make_model(AwdLstmModel, direction="backward")
    words = make_words(2, 9)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    backwards = reverse_rows(words, mask)
    assert backwards[1, :4].tolist() == words[1, :4].flip(0).tolist()
    aligned = reverse_rows(model(backwards, mask).last_hidden_state, mask)
    alone = model(words[1:, :4].flip(1)).last_hidden_state.flip(1)
    torch.testing.assert_close(aligned[1:, :4], alone, atol=1e-6, rtol=1e-5)


def test_hidden_states_are_the_embedded_words_and_each_layer():
    model, words = make_model(AwdLstmModel), make_words()
    assert model(words).hidden_states is None
    output = model(words, output_hidden_states=True)
    assert [tuple(h.shape) for h in output.hidden_states] == [(4, 11, 6), (4, 11, 9), (4, 11, 9), (4, 11, 6)]
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert torch.equal(output.hidden_states[0], model.embed_tokens(words))
    embedded = model(inputs_embeds=model.embed_tokens(words))
    assert torch.equal(embedded.last_hidden_state, output.last_hidden_state)
    assert isinstance(model(words, return_dict=False), tuple)


def test_loss_is_the_mean_cross_entropy_of_the_next_word():
    model, words = make_model(), make_words()
    output = model(words, labels=words)
    logs = output.logits.log_softmax(-1)
    expected = -sum(logs[b, t, words[b, t + 1]] for b in range(4) for t in range(10)) / 40
    torch.testing.assert_close(output.loss, expected)
    shifted = torch.cat([words[:, 1:], torch.full((4, 1), -100)], 1)
    torch.testing.assert_close(model(words, shift_labels=shifted).loss, expected)
    assert model(words[:, :1], labels=words[:, :1]).loss == 0


def test_training_loss_adds_the_activation_penalties_over_real_tokens():
    model = make_model(activation_regularization=2.0, temporal_activation_regularization=3.0).train()
    words = make_words(2, 6)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    labels = words.masked_fill(mask == 0, -100)
    penalty = model(words, mask, labels=labels).loss - model.eval()(words, mask, labels=labels).loss
    output = model.encoder(words, mask).last_hidden_state
    squares = [output[b, t].square().mean() for b, n in ((0, 6), (1, 3)) for t in range(n)]
    changes = [(output[b, t] - output[b, t - 1]).square().mean() for b, n in ((0, 6), (1, 3)) for t in range(1, n)]
    expected = 2 * torch.stack(squares).mean() + 3 * torch.stack(changes).mean()
    torch.testing.assert_close(penalty, expected, atol=1e-6, rtol=1e-4)
    assert masked_mean(torch.ones(1, 2), torch.zeros(1, 2)) == 0


def test_state_dict_names_are_plain_and_the_decoder_is_tied(tmp_path):
    model = make_model()
    names = {
        f"encoder.layers.{k}.{name}_l0" for k in range(3) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    assert set(model.state_dict()) == names | {"encoder.embed_tokens.weight", "lm_head.weight", "lm_head.bias"}
    assert model.lm_head.weight is model.encoder.embed_tokens.weight
    model.save_pretrained(tmp_path)
    again = AwdLstmForCausalLM.from_pretrained(tmp_path)
    assert again.lm_head.weight is again.encoder.embed_tokens.weight
    torch.testing.assert_close(again.eval()(make_words()).logits, model(make_words()).logits)


def test_an_untied_decoder_is_saved_and_loaded(tmp_path):
    model = make_model(tie_word_embeddings=False)
    assert model.lm_head.weight is not model.encoder.embed_tokens.weight
    model.save_pretrained(tmp_path)
    again = AwdLstmForCausalLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(make_words()).logits, model(make_words()).logits)


class Classifier(PreTrainedModel):
    """A stand-in for a classifier: it too calls its reader `encoder`."""

    config_class = AwdLstmConfig
    base_model_prefix = "encoder"

    def __init__(self, config):
        super().__init__(config)
        self.encoder = AwdLstmModel(config)
        self.head = nn.Linear(config.output_size, 2)
        self.post_init()


@pytest.mark.parametrize("cls", [AwdLstmModel, Classifier])
def test_a_language_model_folder_loads_into_its_readers(cls, tmp_path):
    model = make_model()
    model.save_pretrained(tmp_path)
    reader = cls.from_pretrained(tmp_path)
    encoder = reader if cls is AwdLstmModel else reader.encoder
    for name, value in model.encoder.state_dict().items():
        assert torch.equal(encoder.state_dict()[name], value)


def test_weights_missing_from_a_file_are_initialised_and_loaded_ones_are_kept(tmp_path):
    model = make_model()
    AwdLstmForCausalLM(model.config)
    model.encoder.save_pretrained(tmp_path / "encoder")
    again = AwdLstmForCausalLM.from_pretrained(tmp_path / "encoder")
    assert torch.equal(again.encoder.layers[2].weight_hh_l0, model.encoder.layers[2].weight_hh_l0)
    assert again.lm_head.bias.tolist() == [0.0] * SIZES["vocab_size"]
    bigger = AwdLstmForCausalLM.from_pretrained(
        tmp_path / "encoder", config=AwdLstmConfig(**{**SIZES, "hidden_size": 12}), ignore_mismatched_sizes=True
    )
    assert bigger.encoder.layers[1].weight_hh_l0.abs().max() <= 12**-0.5
    assert bigger.encoder.layers[1].weight_hh_l0.std() > 0.1
    assert torch.equal(bigger.encoder.embed_tokens.weight, model.encoder.embed_tokens.weight)


def test_a_fresh_classifier_initialises_its_reader_as_the_reader_does():
    torch.manual_seed(0)
    layer = Classifier(AwdLstmConfig(**SIZES)).encoder.layers[0]
    assert 0 < layer.bias_ih_l0.abs().max() <= layer.hidden_size**-0.5
    assert 0.25 < layer.weight_ih_l0.abs().max() <= layer.hidden_size**-0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_work(dtype):
    model = make_model(weight_dropout=0.2).to(dtype).train()
    words, mask = make_words(), torch.ones(4, 11).long()
    mask[1, 5:] = 0
    output = model(words, mask, labels=words)
    output.loss.backward()
    assert output.logits.dtype == dtype and output.loss.isfinite()


def test_autocast_to_bfloat16_works_on_cpu():
    model, words = make_model(), make_words()
    with torch.autocast("cpu", torch.bfloat16):
        output = model(words, labels=words)
    output.loss.backward()
    torch.testing.assert_close(output.logits.float(), model(words).logits, atol=0.02, rtol=0.05)


def test_errors_say_what_to_type():
    model, words = make_model(AwdLstmModel), make_words(1, 3)
    with pytest.raises(ValueError, match="Pad on the right"):
        model(words, torch.tensor([[0, 1, 1]]))
    with pytest.raises(ValueError, match="has 1 layers, but this model has 3"):
        model(words, hidden_state=model(words).hidden_state[:1])
    with pytest.raises(ValueError, match="0 tokens"):
        model(words[:, :0])
    with pytest.raises(ValueError, match="`weight_dropout` is 0.6 times `dropout_multiplier` 2"):
        AwdLstmConfig(**SIZES, weight_dropout=0.6, dropout_multiplier=2.0)
    with pytest.raises(ValueError, match="`hidden_size` is 0"):
        AwdLstmConfig(**{**SIZES, "hidden_size": 0})
    with pytest.raises(Exception, match="direction"):
        AwdLstmConfig(**SIZES, direction="sideways")

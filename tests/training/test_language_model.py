"""Streams, schedules, resuming, vocabulary transfer and the fastai import."""

import json
import pickle

import numpy as np
import pytest
import torch

from hf_labelattn.data.tokenization import RaggedIds, word_tokenizer
from hf_labelattn.models.configuration_awd_lstm import AwdLstmConfig
from hf_labelattn.models.modeling_awd_lstm import AwdLstmForCausalLM
from hf_labelattn.training.experiment import DataArguments
from hf_labelattn.training.fastai_weights import (
    load_fastai_language_model,
    read_fastai_vocabulary,
    read_fastai_weights,
)
from hf_labelattn.training.language_model import (
    SCHEDULES,
    LanguageModelArguments,
    LanguageModelTrainer,
    checkpoints,
    train_language_model,
)
from hf_labelattn.training.text_streams import (
    join_documents,
    read_texts,
    stream_rows,
    unigram_perplexity,
    window_lengths,
    windows_from,
)
from hf_labelattn.training.vocabulary_transfer import transfer_vocabulary

WORDS = [f"word{i}" for i in range(20)]
SMALL = {"embedding_size": 6, "hidden_size": 8, "num_hidden_layers": 2}


def make_documents(count=12, seed=0):
    """Documents in which each word is followed by the next one in the vocabulary: easy for a language model."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(10, 40, count)
    parts = [2 + (rng.integers(20) + np.arange(n)) % 20 for n in lengths]
    return RaggedIds(np.concatenate(parts).astype(np.int32), np.cumsum([0, *lengths]))


def make_trainer(folder, cls=LanguageModelTrainer, seed=0, **changes):
    torch.manual_seed(seed)
    tokenizer = word_tokenizer(WORDS)
    model = AwdLstmForCausalLM(AwdLstmConfig(vocab_size=22, **SMALL))
    fields = {"num_train_epochs": 2, "batch_size": 2, "bptt": 12, "save_steps": 3, "learning_rate": 0.02}
    args = LanguageModelArguments(str(folder), use_cpu=True, **{**fields, **changes})
    return cls(model, tokenizer, make_documents(), make_documents(4, seed=1), args)


def test_rows_continue_each_other_and_every_word_is_predicted_once():
    stream = np.arange(100, 153)
    inputs, targets = stream_rows(stream, 4)
    assert inputs.shape == targets.shape == (4, 13)
    assert inputs.ravel().tolist() == list(range(100, 152)) and targets.ravel().tolist() == list(range(101, 153))
    inputs, targets = stream_rows(stream, 5, pad=0)
    assert targets[targets != -100].tolist() == list(range(101, 153))
    assert (inputs[targets == -100] == 0).all() and inputs.shape == (5, 11)


def test_the_backward_stream_is_the_forward_stream_reversed():
    documents, order = make_documents(), np.random.default_rng(0).permutation(12)
    forward = join_documents(documents, order, separator=1)
    assert len(forward) == len(documents.values) + 12
    assert np.array_equal(join_documents(documents, order, separator=1, backward=True), forward[::-1])


def test_windows_cover_a_row_with_jittered_lengths():
    lengths = window_lengths(20_000, 70, np.random.default_rng(0))
    assert sum(lengths) == 20_000 and min(lengths[:-1]) >= 5
    assert np.mean(np.abs(np.array(lengths) - 70) < 15) > 0.85
    assert any(25 < length < 45 for length in lengths)
    assert [end for _, _, end in windows_from(lengths, 0)] == np.cumsum(lengths).tolist()
    assert list(windows_from(lengths, 3)) == list(windows_from(lengths, 0))[3:]


def test_unigram_perplexity_equals_the_literal_formula():
    train, targets = make_documents(), np.array([2, 3, 3, 21, -100])
    total = len(train.values) + 22
    logs = [np.log((np.sum(train.values == word) + 1) / total) for word in (2, 3, 3, 21)]
    assert unigram_perplexity(train, targets, 22) == pytest.approx(np.exp(-np.mean(logs)))


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_rise_once_and_fall_once(name):
    rates = [SCHEDULES[name](p) for p in np.linspace(0, 1, 401)]
    top = int(np.argmax(rates))
    assert max(rates) == pytest.approx(1.0) and 0 < rates[0] < 0.05 and 0 < rates[-1] < 0.05
    assert np.all(np.diff(rates[: top + 1]) > 0) and np.all(np.diff(rates[top:]) < 0)


def test_training_beats_the_unigram_model_and_leaves_a_checkpoint(tmp_path, capsys):
    trainer = make_trainer(tmp_path, num_train_epochs=6, learning_rate=0.05, direction="backward")
    results = train_language_model(trainer)
    found = results["metrics"]["validation"]
    assert found["perplexity"] < 0.8 * found["unigram_perplexity"]
    assert f"unigram model {found['unigram_perplexity']:.2f}" in capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text()) == results
    assert not checkpoints(tmp_path)
    again = AwdLstmForCausalLM.from_pretrained(tmp_path)
    assert again.config.direction == "backward"
    trainer.model = again
    assert np.exp(trainer.evaluate()) == pytest.approx(found["perplexity"], rel=1e-6)


class Watched(LanguageModelTrainer):
    """A trainer that notes the rate of each step, without the part that depends on the window's length."""

    def _step(self, words, following, epoch, window, rate):
        self.__dict__.setdefault("rates", []).append(rate * self.args.bptt / words.shape[1])
        assert {group["lr"] for group in self.optimizer.param_groups} == {rate}
        return super()._step(words, following, epoch, window, rate)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_schedule_spans_the_whole_run(tmp_path, name):
    trainer = make_trainer(tmp_path, Watched, schedule=name, num_train_epochs=4, learning_rate=0.02)
    trainer.train()
    rates = np.array(trainer.rates) / 0.02
    assert rates[0] == pytest.approx(SCHEDULES[name](0.0)) and rates[-1] < 0.1
    assert rates.max() > 0.95 and 0.05 < rates.argmax() / len(rates) < 0.35


def test_random_text_cannot_be_predicted(tmp_path):
    """A target that leaks into the input would show as a perplexity below the number of words."""
    trainer = make_trainer(tmp_path, num_train_epochs=4, learning_rate=0.05)
    rng = np.random.default_rng(0)
    trainer.train_documents = RaggedIds(rng.integers(2, 22, 600).astype(np.int32), np.arange(0, 601, 30))
    trainer.evaluation = stream_rows(rng.integers(2, 22, 600), 4, pad=0)
    assert trainer.train().best_loss > np.log(19)


def test_evaluation_equals_the_likelihood_of_the_rows_read_whole(tmp_path):
    trainer = make_trainer(tmp_path, bptt=4)
    inputs, targets = (torch.from_numpy(part) for part in trainer.evaluation)
    logs = trainer.model.eval()(inputs).logits.log_softmax(-1)
    real = targets != -100
    expected = -logs.gather(-1, targets.clamp(min=0)[..., None])[..., 0][real].mean()
    assert trainer.evaluate() == pytest.approx(expected.item(), rel=1e-5)
    assert real.sum() == len(make_documents(4, seed=1).values) - 1


class Interrupted(LanguageModelTrainer):
    """A trainer that dies at a given step."""

    dies_at = 0

    def _step(self, *args):
        if self.progress.step == self.dies_at:
            raise KeyboardInterrupt
        return super()._step(*args)


@pytest.mark.parametrize("dies_at", [2, 8, 14])
def test_a_killed_run_gives_the_same_weights_as_an_uninterrupted_one(tmp_path, dies_at):
    whole = make_trainer(tmp_path / "whole")
    results = train_language_model(whole)
    assert whole.progress.step > 14
    Interrupted.dies_at = dies_at
    with pytest.raises(KeyboardInterrupt):
        train_language_model(make_trainer(tmp_path / "killed", Interrupted))
    assert not (tmp_path / "killed" / "results.json").exists()
    resumed = make_trainer(tmp_path / "killed")
    assert train_language_model(resumed) == results
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


def test_a_run_is_not_continued_with_other_settings(tmp_path):
    Interrupted.dies_at = 8
    with pytest.raises(KeyboardInterrupt):
        make_trainer(tmp_path, Interrupted).train()
    with pytest.raises(ValueError, match=r"other settings \(bptt 12 → 13\).*another `--output_dir`"):
        make_trainer(tmp_path, bptt=13).train()


def test_a_half_written_checkpoint_is_ignored(tmp_path):
    (tmp_path / "checkpoint-0000-00000003.partial").mkdir()
    trainer = make_trainer(tmp_path)
    trainer.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-0002-00000000"]


def test_bad_arguments_and_too_little_text_say_what_to_type(tmp_path):
    with pytest.raises(ValueError, match="`direction` is 'left', but must be forward or backward"):
        LanguageModelArguments(str(tmp_path), direction="left")
    with pytest.raises(ValueError, match="`bptt` is 0"):
        LanguageModelArguments(str(tmp_path), bptt=0)
    with pytest.raises(ValueError, match="too few for 500 rows.*smaller `--batch_size`"):
        make_trainer(tmp_path, batch_size=500)


def test_text_files_need_no_labels(tmp_path):
    rows = [{"id": str(i), "text": f"note number {i}"} for i in range(30)]
    (tmp_path / "plain.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "plain.csv").write_text("body\n" + "\n".join(row["text"] for row in rows))
    notes = read_texts(DataArguments(train_file=str(tmp_path / "plain.jsonl")))
    assert sorted([*notes["train"]["text"], *notes["validation"]["text"]]) == sorted(row["text"] for row in rows)
    notes = read_texts(DataArguments(train_file=str(tmp_path / "plain.csv"), text_column="body"))
    assert len(notes["train"]) + len(notes["validation"]) == 30


def test_shared_words_keep_their_vectors_and_new_words_get_the_mean():
    old_tokenizer = word_tokenizer(["heart", "lung", "liver"])
    new_tokenizer = word_tokenizer(["kidney", "liver", "heart"])
    torch.manual_seed(0)
    old = AwdLstmForCausalLM(AwdLstmConfig(vocab_size=5, **SMALL)).eval()
    torch.nn.init.normal_(old.lm_head.bias)
    model, coverage = transfer_vocabulary(old, old_tokenizer, new_tokenizer, np.array([0, 1, 2, 3, 4]))
    before, after = old.lm_head.weight, model.lm_head.weight
    expected = torch.stack([before[0], before[1], before.mean(0), before[4], before[2]])
    torch.testing.assert_close(after, expected)
    assert model.lm_head.bias[3] == old.lm_head.bias[4] and model.lm_head.weight is model.encoder.embed_tokens.weight
    assert (coverage.shared, coverage.total, coverage.token_share) == (4, 5, 0.8)
    assert str(coverage) == "4 of 5 words keep their vectors (80.0%), 80.0% of the training text"
    words, same = torch.tensor([[2, 4, 1]]), torch.tensor([[4, 3, 1]])  # heart liver [UNK] in both vocabularies
    shared = [0, 1, 4, 2], [0, 1, 3, 4]
    torch.testing.assert_close(model(same).logits[..., shared[1]], old(words).logits[..., shared[0]])


def fastai_state(vocab_size=9, embedding=4, hidden=5, seed=0):
    """The weights of a language model under fastai's parameter names."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator) * 0.3

    state = {"0.encoder.weight": draw(vocab_size, embedding)}
    state["0.encoder_dp.emb.weight"] = state["1.decoder.weight"] = state["0.encoder.weight"]
    for k, (size_in, size_out) in enumerate([(embedding, hidden), (hidden, embedding)]):
        state[f"0.rnns.{k}.weight_hh_l0_raw"] = draw(4 * size_out, size_out)
        state[f"0.rnns.{k}.module.weight_ih_l0"] = draw(4 * size_out, size_in)
        state[f"0.rnns.{k}.module.weight_hh_l0"] = torch.zeros(4 * size_out, size_out)
        state[f"0.rnns.{k}.module.bias_ih_l0"] = draw(4 * size_out)
        state[f"0.rnns.{k}.module.bias_hh_l0"] = draw(4 * size_out)
    state["1.decoder.bias"] = draw(vocab_size)
    return state


FASTAI_WORDS = ["xxunk", "xxpad", "xxbos", "the", "heart", "of", "darkness", "xxfake", "xxfake"]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("wrapped", [False, True])
def test_fastai_weights_give_the_logits_of_fastais_modules(tmp_path, protocol, wrapped):
    state = fastai_state()
    torch.save({"model": state, "opt": {"lr": [0.1]}} if wrapped else state, tmp_path / "lm.pth")
    (tmp_path / "itos.pkl").write_bytes(pickle.dumps(FASTAI_WORDS, protocol=protocol))
    model, tokenizer = load_fastai_language_model(tmp_path / "lm.pth", tmp_path / "itos.pkl", dropout_multiplier=0.5)
    assert tokenizer("The HEART of dark")["input_ids"] == [3, 4, 5, 0]
    assert (model.config.pad_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id) == (1, 1, 0)
    words = torch.tensor([[2, 3, 4, 5, 6]])
    hidden = state["0.encoder.weight"][words]
    for k, (size_in, size_out) in enumerate([(4, 5), (5, 4)]):
        layer = torch.nn.LSTM(size_in, size_out, batch_first=True)
        names = {name: state[f"0.rnns.{k}.module.{name}"] for name in ("weight_ih_l0", "bias_ih_l0", "bias_hh_l0")}
        layer.load_state_dict(names | {"weight_hh_l0": state[f"0.rnns.{k}.weight_hh_l0_raw"]})
        hidden = layer(hidden)[0]
    expected = hidden @ state["1.decoder.weight"].T + state["1.decoder.bias"]
    torch.testing.assert_close(model(words).logits, expected, atol=1e-5, rtol=1e-5)


def test_fastai_itself_gives_the_same_logits(tmp_path):
    pytest.importorskip("fastai", reason="compares with fastai where it is installed")
    from fastai.text.models.awdlstm import AWD_LSTM, awd_lstm_lm_config
    from fastai.text.models.core import get_language_model

    config = {**awd_lstm_lm_config, "emb_sz": 12, "n_hid": 20, "n_layers": 3}
    theirs = get_language_model(AWD_LSTM, 30, config).eval()
    torch.save(theirs.state_dict(), tmp_path / "lm.pth")
    vocabulary = ["xxunk", "xxpad", *[f"w{i}" for i in range(28)]]
    (tmp_path / "itos.pkl").write_bytes(pickle.dumps(vocabulary))
    ours, _ = load_fastai_language_model(tmp_path / "lm.pth", tmp_path / "itos.pkl")
    words = torch.randint(2, 30, (3, 40))
    theirs.reset()
    state = None
    for chunk in words.split(15, 1):
        output = ours(chunk, hidden_state=state)
        state = output.hidden_state
        torch.testing.assert_close(output.logits, theirs(chunk)[0], atol=1e-5, rtol=1e-5)


class Dangerous:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


@pytest.mark.parametrize(
    "content",
    [Dangerous(), ["a", Dangerous()], {"a": 1}, ["a", 1], ["a", ["b"]], "text", np.array(["a"])],
    ids=["code", "code inside", "dict", "number", "nested", "string", "array"],
)
def test_a_vocabulary_that_is_not_a_list_of_strings_is_refused_and_not_executed(tmp_path, content):
    (tmp_path / "itos.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match="not a pickled list of strings.*In fastai, write it as JSON"):
        read_fastai_vocabulary(tmp_path / "itos.pkl")


def test_broken_and_json_vocabularies(tmp_path):
    (tmp_path / "itos.pkl").write_bytes(pickle.dumps(FASTAI_WORDS)[:-10])
    with pytest.raises(ValueError, match="not a pickled list"):
        read_fastai_vocabulary(tmp_path / "itos.pkl")
    (tmp_path / "vocabulary.json").write_text(json.dumps(FASTAI_WORDS))
    assert read_fastai_vocabulary(tmp_path / "vocabulary.json") == FASTAI_WORDS
    (tmp_path / "bad.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="one list of strings"):
        read_fastai_vocabulary(tmp_path / "bad.json")


def test_weights_of_something_else_are_refused(tmp_path):
    torch.save({"bert.weight": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(ValueError, match="not a fastai AWD-LSTM language model: found \\['bert.weight'\\]"):
        read_fastai_weights(tmp_path / "other.pth")
    torch.save(fastai_state(), tmp_path / "lm.pth")
    (tmp_path / "short.json").write_text(json.dumps(FASTAI_WORDS[:5]))
    with pytest.raises(ValueError, match="has 5 words, but .* has vectors for 9"):
        load_fastai_language_model(tmp_path / "lm.pth", tmp_path / "short.json")

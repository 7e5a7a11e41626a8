"""Import an AWD-LSTM that was trained with fastai, such as its WikiText-103 model.

    from hf_labelattn.training.fastai_weights import load_fastai_language_model

    model, tokenizer = load_fastai_language_model("lstm_fwd.pth", "itos_wt103.pkl")
    model.save_pretrained("wikitext-103"); tokenizer.save_pretrained("wikitext-103")

Both files come from elsewhere, so nothing in them is executed. Weights are read with `weights_only=True`. The
vocabulary is a pickled list of strings; it is not unpickled but read opcode by opcode, and every opcode that could do
more than build such a list is refused.
"""

import json
import os
import pickletools
import re
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ..models.configuration_awd_lstm import AwdLstmConfig
from ..models.modeling_awd_lstm import AwdLstmForCausalLM

PAD_TOKEN, UNK_TOKEN = "xxpad", "xxunk"
HOW_TO_EXPORT = (
    "In fastai, write it as JSON: `json.dump([str(w) for w in learn.dls.vocab[0]], open('vocab.json', 'w'))`."
)

_STRINGS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
_PUT = {"PUT", "BINPUT", "LONG_BINPUT"}
_GET = {"GET", "BINGET", "LONG_BINGET"}
_NO_EFFECT = {"PROTO", "FRAME"}
_MARK = object()


def load_fastai_language_model(
    weights_file: str | os.PathLike, vocabulary_file: str | os.PathLike, *, direction: str = "forward", **overrides
) -> tuple[AwdLstmForCausalLM, PreTrainedTokenizerFast]:
    """The model and tokenizer of a fastai AWD-LSTM.

    fastai splits text with spaCy and marks capitals with words of its own, which a word-level tokenizer does not do:
    use the tokenizer to carry word vectors over to your own vocabulary (`transfer_vocabulary`), not to score raw text.

    Args:
        weights_file: `.pth` file with the language model, as `learn.save` or the download has it.
        vocabulary_file: Its vocabulary: pickled list of words (`itos_wt103.pkl`), or a list in a `.json` file.
        direction: "backward" for a model trained on reversed text.
        **overrides: Config fields, such as `dropout_multiplier`.
    """
    weights = read_fastai_weights(weights_file)
    vocabulary = read_fastai_vocabulary(vocabulary_file)
    if len(vocabulary) != len(weights["encoder.embed_tokens.weight"]):
        raise ValueError(
            f"{vocabulary_file} has {len(vocabulary)} words, but {weights_file} has vectors for "
            f"{len(weights['encoder.embed_tokens.weight'])}. Pass the vocabulary the model was trained with."
        )
    fields = {**sizes(weights), "pad_token_id": token_id(vocabulary, PAD_TOKEN), "direction": direction, **overrides}
    model = AwdLstmForCausalLM(AwdLstmConfig(**fields))
    model.load_state_dict(weights)
    return model.eval(), fastai_tokenizer(vocabulary)


def read_fastai_weights(path: str | os.PathLike) -> dict[str, torch.Tensor]:
    """The weights of a fastai language model under the names of `AwdLstmForCausalLM`."""
    content = torch.load(path, map_location="cpu", weights_only=True)
    content = content.get("model", content)
    weights = {}
    for name, value in content.items():
        new_name = plain_name(name)
        # Old files hold the recurrent weights twice; the raw ones are those the optimizer changed.
        if new_name is not None and (new_name not in weights or name.endswith("_raw")):
            weights[new_name] = value.float()
    missing = [name for name in ("encoder.embed_tokens.weight", "lm_head.bias") if name not in weights]
    if missing or "encoder.layers.0.weight_hh_l0" not in weights:
        raise ValueError(
            f"{path} is not a fastai AWD-LSTM language model: found {sorted(content)[:4]} …, expected names such as "
            "'0.rnns.0.weight_hh_l0_raw' and '1.decoder.bias'. Save it whole with `learn.save`, not the encoder alone."
        )
    weights.setdefault("lm_head.weight", weights["encoder.embed_tokens.weight"])
    return weights


def plain_name(name: str) -> str | None:
    """Our name of a fastai parameter, or None for a second copy of the word vectors.

    >>> plain_name("0.rnns.1.weight_hh_l0_raw"), plain_name("1.decoder.bias")
    ('encoder.layers.1.weight_hh_l0', 'lm_head.bias')
    """
    if name == "0.encoder.weight":
        return "encoder.embed_tokens.weight"
    if name.startswith("1.decoder."):
        return name.replace("1.decoder", "lm_head")
    layer = re.fullmatch(r"0\.rnns\.(\d+)\.(?:module\.)?((?:weight|bias)_(?:ih|hh)_l0)(?:_raw)?", name)
    return f"encoder.layers.{layer[1]}.{layer[2]}" if layer else None


def sizes(weights: dict[str, torch.Tensor]) -> dict[str, int | bool]:
    """The config fields that the shapes of the weights tell."""
    vocab_size, embedding_size = weights["encoder.embed_tokens.weight"].shape
    num_layers = sum(name.endswith("weight_hh_l0") for name in weights)
    return {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": weights["encoder.layers.0.weight_hh_l0"].shape[1],
        "num_hidden_layers": num_layers,
        "tie_word_embeddings": torch.equal(weights["lm_head.weight"], weights["encoder.embed_tokens.weight"]),
    }


def fastai_tokenizer(vocabulary: list[str]) -> PreTrainedTokenizerFast:
    """A word-level tokenizer with the ids of a fastai vocabulary; repeated words (fillers) are numbered."""
    ids: dict[str, int] = {}
    for index, word in enumerate(vocabulary):
        ids[word if word not in ids else f"{word}#{index}"] = index
    token_id(vocabulary, UNK_TOKEN)
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNK_TOKEN))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=UNK_TOKEN, pad_token=PAD_TOKEN, split_special_tokens=True
    )


def token_id(vocabulary: list[str], token: str) -> int:
    """Position of a special token."""
    if token not in vocabulary:
        raise ValueError(
            f"The vocabulary has no {token!r}, so it is not fastai's. Pass the model's own vocabulary file."
        )
    return vocabulary.index(token)


def read_fastai_vocabulary(path: str | os.PathLike) -> list[str]:
    """The words of a vocabulary file, a JSON list or a pickled list of strings. Nothing is unpickled."""
    path = Path(path)
    if path.suffix == ".json":
        words = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{path} must hold one list of strings. {HOW_TO_EXPORT}")
        return words
    return pickled_strings(path.read_bytes(), str(path))


def pickled_strings(data: bytes, source: str = "the pickle") -> list[str]:
    """Read a pickled list of strings without unpickling it.

    Args:
        data: The pickle, of any protocol.
        source: What to call it in an error.
    """
    stack: list = []
    memo: dict[int, object] = {}
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                break
            _apply(opcode.name, argument, stack, memo)
        (words,) = stack
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"{source} is not a pickled list of strings ({error}). {HOW_TO_EXPORT}") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{source} is not a pickled list of strings. {HOW_TO_EXPORT}")
    return words


def _apply(name: str, argument: object, stack: list, memo: dict) -> None:
    """One step of the few opcodes that a list of strings needs."""
    if name in _STRINGS:
        stack.append(argument)
    elif name in _PUT:
        memo[int(argument)] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in _GET:
        stack.append(memo[int(argument)])
    elif name == "MARK":
        stack.append(_MARK)
    elif name == "EMPTY_LIST":
        stack.append([])
    elif name in ("LIST", "APPEND", "APPENDS"):
        _collect(name, stack)
    elif name not in _NO_EFFECT:
        raise ValueError(f"it contains the opcode {name}, which a list of strings does not need")


def _collect(name: str, stack: list) -> None:
    """Move items from the stack into a list."""
    begin = len(stack) - 1 if name == "APPEND" else len(stack) - 1 - stack[::-1].index(_MARK)
    items = [item for item in stack[begin:] if item is not _MARK]
    del stack[begin:]
    if name == "LIST":
        stack.append(items)
    elif not isinstance(stack[-1], list):
        raise ValueError("it appends to something that is not a list")
    else:
        stack[-1].extend(items)

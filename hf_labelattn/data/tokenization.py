"""Words as tokens: a fast tokenizer trained on training text, and documents as one flat array of ids.

Words are what all three papers read: lower-cased, split at everything that is not a letter, digit or underscore, and
without the tokens that have no letter. A word must occur for several patients to enter the vocabulary, because rare
words are where names hide. The tokenizer is a plain `PreTrainedTokenizerFast`, so `AutoTokenizer` loads it and offsets
point into the original text.
"""

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from tqdm.auto import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

PAD_TOKEN, UNK_TOKEN = "[PAD]", "[UNK]"
MAX_WORD_TABLE = 1_000_000
TOKENIZER_FILES = "tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model"


def train_word_tokenizer(
    texts: Iterable[str],
    groups: Sequence[Hashable] | None = None,
    *,
    min_document_frequency: int = 3,
    max_vocab: int | None = None,
    lowercase: bool = True,
    keep_numbers: bool = False,
    progress: bool = True,
) -> PreTrainedTokenizerFast:
    """Build a word-level tokenizer from training documents.

    Args:
        texts: The training documents, and no others.
        groups: The group (patient) of each document; a word counts once per group. By default every document counts.
        min_document_frequency: In how many groups a word must occur.
        max_vocab: Largest vocabulary, `[PAD]` (id 0) and `[UNK]` (id 1) included; the most frequent words are kept.
        lowercase: Whether to fold case.
        keep_numbers: Whether to keep tokens without a letter, such as numbers.
        progress: Whether to show a progress bar when it takes more than two seconds.

    Returns:
        Tokenizer whose words are ordered by falling document frequency, equal ones alphabetically.
    """
    if min_document_frequency < 1:
        raise ValueError(f"`min_document_frequency` is {min_document_frequency}; pass 1 or more.")
    if max_vocab is not None and max_vocab < 3:
        raise ValueError(f"`max_vocab` is {max_vocab}; pass 3 or more: {PAD_TOKEN}, {UNK_TOKEN} and a word.")
    counts = count_words(texts, groups, lowercase=lowercase, keep_numbers=keep_numbers, progress=progress)
    if not counts:
        raise ValueError("the training documents have no words, so there is no vocabulary. Pass documents with text.")
    frequent = [word for word, count in counts.items() if count >= min_document_frequency]
    if not frequent:
        found = f"the commonest word is in {max(counts.values())} documents (groups)"
        hint = "Pass more documents or a smaller `min_document_frequency`."
        raise ValueError(f"{found}, fewer than `min_document_frequency={min_document_frequency}`. {hint}")
    words = sorted(frequent, key=lambda word: (-counts[word], word))
    return word_tokenizer(words[: max_vocab and max_vocab - 2], lowercase=lowercase, keep_numbers=keep_numbers)


def word_tokenizer(
    words: Iterable[str], *, lowercase: bool = True, keep_numbers: bool = False
) -> PreTrainedTokenizerFast:
    """Word-level tokenizer over a given vocabulary; `[PAD]` gets id 0, `[UNK]` id 1, the words the ids from 2 on."""
    vocabulary = {token: index for index, token in enumerate([PAD_TOKEN, UNK_TOKEN, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK_TOKEN))
    tokenizer.normalizer, tokenizer.pre_tokenizer = _rules(lowercase, keep_numbers)
    # Special tokens are not looked for in text: a document that spells "[PAD]" must not contain padding.
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=UNK_TOKEN, pad_token=PAD_TOKEN, split_special_tokens=True
    )


def load_tokenizer(path_or_name: str | os.PathLike, **kwargs) -> PreTrainedTokenizerFast:
    """Load any fast tokenizer, from a folder or the Hub, that can pad and give offsets.

    Args:
        path_or_name: Folder written by `save_pretrained`, or a Hub id.
        **kwargs: Passed on to `AutoTokenizer.from_pretrained`.
    """
    if os.path.isdir(path_or_name) and not any(map(os.path.isfile, _tokenizer_files(path_or_name))):
        raise ValueError(
            f"{path_or_name} has no tokenizer ({', '.join(TOKENIZER_FILES)}). Copy it there, or train again."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(path_or_name, **kwargs)
        tokenizer("\N{PILCROW SIGN}")  # a damaged vocabulary may show only at a word it lacks
    except Exception as error:  # of json, tokenizers or transformers, each with its own kind
        if not os.path.isdir(path_or_name):
            raise
        reason = str(error).strip().split("\n")[0].rstrip(".")[:200]
        raise ValueError(f"The tokenizer in {path_or_name} cannot be loaded: {reason}. Copy it again.") from error
    if not tokenizer.is_fast:
        found = type(tokenizer).__name__
        raise ValueError(f"`{path_or_name}` has only a slow tokenizer ({found}), without offsets. Choose another one.")
    if tokenizer.pad_token is None:
        # Decoders such as GPT-2 have none; the attention mask hides padding whatever it is called.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise ValueError(f"`{path_or_name}` has no padding token. Pass `pad_token=...`, one of its tokens.")
    return tokenizer


def _tokenizer_files(folder: str | os.PathLike) -> list[str]:
    return [os.path.join(folder, name) for name in TOKENIZER_FILES]


def count_words(
    texts: Iterable[str],
    groups: Sequence[Hashable] | None = None,
    *,
    lowercase: bool = True,
    keep_numbers: bool = False,
    progress: bool = True,
) -> Counter[str]:
    """In how many groups (by default: documents) each word occurs.

    Args:
        texts: The documents.
        groups: The group of each document.
        lowercase: Whether to fold case.
        keep_numbers: Whether to keep tokens without a letter.
        progress: Whether to show a progress bar when it takes more than two seconds.
    """
    counts = Counter()
    table = _WordTable(lowercase, keep_numbers)
    total = len(texts) if hasattr(texts, "__len__") else None
    texts = tqdm(texts, desc="counting words", unit=" notes", total=total, delay=2, disable=None if progress else True)
    documents = (set(table.words(text)) for text in texts)
    for words in documents if groups is None else _united_by_group(documents, groups):
        counts.update(words)
    return counts


@dataclass(frozen=True)
class RaggedIds:
    """Token ids of many documents in one array; document i is `values[starts[i]:starts[i + 1]]`."""

    values: np.ndarray  # int32 [tokens]
    starts: np.ndarray  # int64 [documents + 1]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        """Ids of one document, without a copy."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"document {index} of {len(self)}")
        index = index % len(self)
        return self.values[self.starts[index] : self.starts[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)  # int64 [documents]


def encode_documents(
    tokenizer: PreTrainedTokenizerBase, texts: Iterable[str], batch_size: int = 1000, progress: bool = True
) -> RaggedIds:
    """Token ids of whole documents, without special tokens and without truncation.

    Args:
        tokenizer: Any tokenizer; the chunker adds the special tokens of those that have them.
        texts: The documents; a column of a dataset is read batch by batch.
        batch_size: Documents tokenized at once.
        progress: Whether to show a progress bar when it takes more than two seconds.
    """
    parts, lengths = [np.zeros(0, dtype=np.int32)], [0]
    encode = _word_encoder(tokenizer) or partial(_encode, tokenizer)
    total = len(texts) if hasattr(texts, "__len__") else None
    with tqdm(desc="tokenizing", unit=" notes", total=total, delay=2, disable=None if progress else True) as bar:
        for batch in _batches(texts, batch_size):
            ids = encode(batch)
            lengths.extend(map(len, ids))
            parts.append(np.fromiter(chain.from_iterable(ids), dtype=np.int32, count=sum(map(len, ids))))
            bar.update(len(batch))
    return RaggedIds(np.concatenate(parts), np.cumsum(lengths, dtype=np.int64))


def _encode(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    # `verbose=False` silences the warning about documents longer than the model reads at once: they are chunked later.
    options = {"add_special_tokens": False, "truncation": False, "padding": False, "verbose": False}
    return tokenizer(texts, return_attention_mask=False, return_token_type_ids=False, **options)["input_ids"]


def _word_encoder(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[str]], list[list[int]]] | None:
    """The same ids some thirty times faster, if this is one of our word tokenizers, unchanged."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not isinstance(backend.model, models.WordLevel) or not backend.encode_special_tokens:
        return None
    if tokenizer.get_added_vocab().keys() - {PAD_TOKEN, UNK_TOKEN}:
        return None
    found = _states((backend.normalizer, backend.pre_tokenizer))
    settings = next((pair for pair in product((True, False), repeat=2) if _states(_rules(*pair)) == found), None)
    if settings is None:
        return None
    vocabulary = tokenizer.get_vocab()
    table = _WordTable(*settings, lambda word: vocabulary.get(word, vocabulary[UNK_TOKEN]))
    return lambda texts: [list(table.words(text)) for text in texts]


def _states(rules: Iterable) -> list[bytes | None]:
    return [rule and rule.__getstate__() for rule in rules]


def _batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    batch = []
    for text in texts:
        batch.append(text)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _rules(lowercase: bool, keep_numbers: bool) -> tuple[normalizers.Normalizer, pre_tokenizers.PreTokenizer]:
    normalizer = normalizers.Sequence([normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])])
    splits = [pre_tokenizers.Split(Regex(r"[^\w]+"), "removed")]
    if not keep_numbers:
        splits.append(pre_tokenizers.Split(Regex(r"^[^\p{L}]+$"), "removed"))
    return normalizer, pre_tokenizers.Sequence(splits)


class _WordTable(dict):
    """Pieces of text → what `convert` makes of the words in them, filled by asking the tokenizer's own rules.

    The rules are slow (10 µs a word), so each distinct piece is asked about once. Pieces of ASCII text are its words,
    as a byte table is enough to split it; other text is cut at white space only, across which no characters combine.
    """

    def __init__(self, lowercase: bool, keep_numbers: bool, convert: Callable[[str], Any] = str):
        super().__init__()
        self.normalizer, self.pre_tokenizer = _rules(lowercase, keep_numbers)
        self.lowercase = lowercase
        self.convert = convert
        chars = (chr(code).lower() if lowercase else chr(code) for code in range(128))
        table = "".join(char if char.isalnum() or char == "_" else " " for char in chars)
        self.ascii_table = table.ljust(256).encode()

    def words(self, text: str) -> Iterator:
        """What `convert` makes of the words of a text, in order."""
        if len(self) > MAX_WORD_TABLE:
            self.clear()
        pieces = text.encode().translate(self.ascii_table).decode().split() if text.isascii() else text.split()
        return chain.from_iterable(map(self.__getitem__, pieces))

    def __missing__(self, piece: str) -> tuple:
        if piece.isascii() and piece.isalpha():
            words = [piece.lower() if self.lowercase else piece]
        else:
            words = [word for word, _ in self.pre_tokenizer.pre_tokenize_str(self.normalizer.normalize_str(piece))]
        self[piece] = tuple(map(self.convert, words))
        return self[piece]


def _united_by_group(documents: Iterable[set[str]], groups: Sequence[Hashable]) -> Iterator[set[str]]:
    """Words of each group; a group is let go as soon as its last document has been read."""
    groups = list(groups)
    remaining = Counter(groups)
    pending: dict[Hashable, set[str]] = {}
    for words, group in zip(documents, groups, strict=True):
        remaining[group] -= 1
        united = pending.pop(group, set()) | words
        if remaining[group]:
            pending[group] = united
        else:
            yield united

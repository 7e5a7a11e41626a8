"""Documents for interaction matching: what the base reads, what the matcher reads, and what both start from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from datasets import Dataset, DatasetDict
from transformers import PreTrainedTokenizerBase

from ..data.documents import DocumentDataset, ragged
from ..data.labels import LabelSet
from ..data.tokenization import train_word_tokenizer
from ..data.vectors import WordVectors, embedding_matrix, load_word_vectors
from ..data.vocabulary import encode_with_extra, reads_words, unknown_words, vector_tokenizer, with_words
from ..models.functional_matching import hash_word, inverse_document_frequency
from .experiment import (
    DataArguments,
    PreparedData,
    data_marks,
    encode_split,
    read_descriptions,
    read_notes,
    take_fraction,
)


@dataclass(frozen=True)
class MatchingData(PreparedData):
    """Documents for the Trainer, with the words the matcher reads.

    Attributes:
        match_tokenizer: What splits documents and descriptions for the matcher.
        match_vectors: `[words, dimensions]` vectors of its words, if a file of them was given.
        vectors: That file.
    """

    match_tokenizer: PreTrainedTokenizerBase | None = None
    match_vectors: np.ndarray | None = None
    vectors: WordVectors | None = None

    @property
    def separate(self) -> bool:
        """Whether the matcher reads other tokens than the base."""
        return self.match_tokenizer is not self.tokenizer

    def term_weights(self) -> torch.Tensor:
        """Inverse document frequency of the matcher's words in the training documents."""
        train = self.splits["train"]
        tokens = train.match_tokens if self.separate else train.tokens
        counts = np.zeros(len(self.match_tokenizer), dtype=np.int64)
        for document in tokens:
            counts[np.unique(document)] += 1
        return inverse_document_frequency(torch.from_numpy(counts), len(tokens))


def prepare_matching_data(
    args: DataArguments,
    word_vectors: str | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    base_labels: Sequence[str] = (),
    zero_shot: bool = False,
) -> MatchingData:
    """Load documents; fix labels, the base's vocabulary and the matcher's.

    A vocabulary that is made here takes up the words of descriptions that have a vector: a label nobody has trained is
    described by words no training document has. A base with a tokenizer of its own keeps it; where that splits words
    into pieces and there are word vectors, the matcher reads words beside it.

    Args:
        args: Where the documents come from.
        word_vectors: File of vectors for the matcher.
        tokenizer: The base's tokenizer, if it has one already.
        base_labels: Labels of a trained base, in its order; further ones follow them.
        zero_shot: Read no training documents.
    """
    notes = _read(args, zero_shot)
    labels = _label_set(notes["train"], read_descriptions(args), base_labels)
    vectors = None if word_vectors is None else load_word_vectors(word_vectors)
    words = tokenizer
    if tokenizer is None or (vectors is not None and not reads_words(tokenizer)):
        words = _word_tokenizer(notes["train"], labels, vectors, args)
    tokenizer = tokenizer or words
    table = None
    if vectors is not None:
        table, coverage = embedding_matrix(words, vectors)
        print(f"matcher: {coverage}")
    splits = {name: _encode(split, labels, tokenizer, words) for name, split in notes.items()}
    words_and_vectors = {"match_tokenizer": words, "match_vectors": table, "vectors": vectors}
    return MatchingData(labels, tokenizer, splits, **data_marks(args), **words_and_vectors)


def _read(args: DataArguments, zero_shot: bool) -> DatasetDict:
    if not zero_shot:
        notes = read_notes(args)
        notes["train"] = take_fraction(notes["train"], args.train_fraction)
        return notes
    if args.train_file is not None:
        raise ValueError("`--zero_shot True` learns nothing from documents. Leave out `--train_file`.")
    if args.label_file is None and args.dataset_name is None:
        raise ValueError("`--zero_shot True` knows labels by their descriptions. Pass `--label_file`.")
    given = args.validation_file or args.test_file or args.dataset_name
    notes = read_notes(args) if given else DatasetDict()
    notes["train"] = Dataset.from_dict({name: [] for name in ("id", "group", "text", "labels")})
    return notes


def _label_set(train: Dataset, descriptions: dict[str, str] | None, base_labels: Sequence[str]) -> LabelSet:
    found = LabelSet.from_notes(train, descriptions)
    if not base_labels:
        return found
    if not set(base_labels) & set(found.names):
        raise ValueError(
            f"The base was trained on labels such as {list(base_labels)[:3]}, the documents have labels such as "
            f"{list(found.names)[:3]}. Train the base on the same label set."
        )
    names = (*base_labels, *(name for name in found.names if name not in set(base_labels)))
    rows = {name: i for i, name in enumerate(found.names)}
    counts = tuple(found.counts[rows[name]] if name in rows else 0 for name in names)
    return LabelSet(names, tuple(found.label2description.get(name, name) for name in names), counts)


def _word_tokenizer(train: Dataset, labels: LabelSet, vectors: WordVectors | None, args: DataArguments):
    if not len(train):
        if vectors is None:
            raise ValueError("Without training documents the words come from vectors. Pass `--word_vectors`.")
        return vector_tokenizer(vectors, args.max_vocab)
    options = {"min_document_frequency": args.min_document_frequency, "max_vocab": args.max_vocab}
    tokenizer = train_word_tokenizer(train["text"], train["group"], **options)
    if vectors is None:
        return tokenizer
    return with_words(tokenizer, [w for w in unknown_words(labels.descriptions, tokenizer) if w in vectors.rows])


def _encode(split: Dataset, labels: LabelSet, tokenizer, words) -> DocumentDataset:
    """A split as the base reads it, with what the matcher needs besides."""
    if not len(split):
        return DocumentDataset(ragged([]), ragged([]), labels.num_labels, labels.names)
    documents, separate = encode_split(split, labels, tokenizer), words is not tokenizer
    unknown = unknown_words(labels.descriptions, words) if reads_words(words) else []
    if not separate and not unknown:
        return documents
    ids, hashes = encode_with_extra(words, split["text"], unknown, [hash_word(word) for word in unknown])
    return replace(documents, match_tokens=ids if separate else None, match_hashes=hashes if unknown else None)

"""The hybrid for long tails: its parts, and the few weights that join them."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.chunking import chunk_layout
from ..data.collator import ChunkedDocumentCollator
from ..data.documents import DocumentDataset
from ..data.tokenization import load_tokenizer
from ..evaluation.metrics import average_precision_macro
from ..evaluation.targets import SparseTargets
from ..models.modeling_hybrid import HybridForMultiLabel
from ..models.word_reading import MATCH_TOKENIZER_FILE
from ..storage import replacing
from .interaction import InteractionArguments
from .interaction_data import MatchingData
from .linear import sigmoid_calibration, softmax_scale
from .sentence import truth_of

# Tried for each part in turn, beside the first part's 1.
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
ROUNDS = 3


@dataclass
class LongTailArguments:
    """What the hybrid is made of."""

    word_vectors: str | None = field(
        default=None, metadata={"help": "Vectors for matching label descriptions (GloVe, word2vec or npy)."}
    )
    leam_steps: int = field(
        default=2000,
        metadata={
            "help": "Training steps of LEAM, words and labels in one space; it needs `word_vectors`. 0 leaves it out: "
            "thousands of labels × long documents take hours on a CPU."
        },
    )
    backbone: str | None = field(
        default=None, metadata={"help": "Sentence encoder (any transformer): adds a classifier of its embeddings."}
    )
    words: str | None = field(
        default=None,
        metadata={
            "help": "Folder of a run of run_interaction.py --base linear (or of a linear model) to use as it is."
        },
    )
    sentence: str | None = field(
        default=None,
        metadata={"help": "Folder of a run of run_label_attention.py --preset sentence to use as it is."},
    )
    parts: str | None = field(
        default=None,
        metadata={
            "help": "Folders of further trained models, separated by commas, such as a PLANT. They must read the same "
            "words: train them with --tokenizer_name of `words`, or of this run's parts/words."
        },
    )
    fit_on: str = field(
        default="dev",
        metadata={
            "help": "How the matching is fitted: dev (its few weights, on half of the development split) or cross_fit "
            "(its word vectors too, on training documents, at the cost of five more linear fits)."
        },
    )
    match: bool = field(default=True, metadata={"help": "False leaves the matching of descriptions out."})
    single_label: bool = field(default=False, metadata={"help": "Each document has exactly one label (no matching)."})

    def __post_init__(self):
        if self.fit_on not in ("dev", "cross_fit"):
            raise ValueError(f"`fit_on` is {self.fit_on!r}, but must be dev or cross_fit.")
        if self.sentence and self.backbone:
            raise ValueError("`--sentence` is a trained model and `--backbone` makes a new one: pass one of them.")
        if self.words and self.word_vectors:
            raise ValueError("`--words` is a trained model and `--word_vectors` are for a new one: pass one of them.")

    @property
    def matching(self) -> InteractionArguments:
        """How the linear model is joined with the matching of descriptions."""
        frozen = self.fit_on == "dev"
        return InteractionArguments(
            base="linear",
            word_vectors=self.word_vectors,
            fit_on=self.fit_on,
            freeze_vectors=frozen,
            term_weighting="idf",
        )

    @property
    def folders(self) -> list[Path]:
        """The further parts."""
        return [Path(name.strip()) for name in (self.parts or "").split(",") if name.strip()]


def add_pieces(
    words: MatchingData, pieces: dict[str, DocumentDataset], tokenizer: PreTrainedTokenizerBase
) -> MatchingData:
    """Documents in pieces of words for a sentence encoder, with their words beside them for the other parts."""
    splits = {}
    for name, split in pieces.items():
        source = words.splits[name]
        if source.ids != split.ids:
            raise ValueError(f"The two readings of {name!r} are of different documents.")
        splits[name] = replace(split, match_tokens=source.tokens, match_hashes=source.match_hashes)
    return replace(words, tokenizer=tokenizer, splits=splits, match_tokenizer=words.match_tokenizer)


def load_part(folder: Path, words: PreTrainedTokenizerBase, load) -> PreTrainedModel:
    """A trained model that reads the same words."""
    own = load_tokenizer(str(folder))
    if own.get_vocab() != words.get_vocab():
        raise ValueError(
            f"{folder} reads another vocabulary ({len(own):,} words) than the other parts ({len(words):,}). Train it "
            "with `--tokenizer_name` of the folder in `--words`, or of this run's parts/words."
        )
    return load(str(folder)).eval()


@torch.no_grad()
def part_scores(model: HybridForMultiLabel, documents: DocumentDataset, tokenizer, batch: int = 32) -> np.ndarray:
    """What each part says, float32 `[parts, documents, labels]`."""
    layout = chunk_layout(model.config, tokenizer)
    collate = ChunkedDocumentCollator(documents.num_labels, layout, model.config.pad_token_id or 0)
    order = np.argsort(documents.lengths, kind="stable")
    found = np.zeros((len(model.parts), len(documents), model.config.num_labels), dtype=np.float32)
    with tqdm(total=len(order), desc="scoring dev", unit=" documents", delay=2, disable=None) as bar:
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            inputs = {k: v for k, v in collate([documents[i] for i in rows]).items() if k != "labels"}
            found[:, rows] = model(**inputs, return_dict=True).part_logits.transpose(0, 1).numpy()
            bar.update(len(rows))
    return found


def quality(scores: np.ndarray, truth: SparseTargets, single: bool) -> float:
    """What the weights are chosen by: macro average precision, or accuracy for single labels."""
    if single:
        return float(truth.dense()[np.arange(len(scores)), scores.argmax(1)].mean())
    return average_precision_macro(scores, truth)


def choose_weights(scores: np.ndarray, truth: SparseTargets, single: bool = False) -> np.ndarray:
    """Weights of the parts `[parts]`, the first is 1: each in turn is set to what ranks the documents best.

    All labels share them, so a development split that is too small for a weight per label is large enough.

    Args:
        scores: `[parts, documents, labels]`.
        truth: The labels of the documents.
        single: Whether each document has exactly one label.
    """
    weights = np.zeros(len(scores))
    weights[0] = 1.0
    total, best = scores[0].copy(), quality(scores[0], truth, single)
    for _ in range(ROUNDS):
        before = weights.copy()
        for part in range(1, len(scores)):
            rest, chosen = total - weights[part] * scores[part], weights[part]
            for weight in WEIGHTS:
                found = quality(rest + weight * scores[part], truth, single)
                if found > best:
                    best, chosen = found, weight
            weights[part], total = chosen, rest + chosen * scores[part]
        if np.array_equal(before, weights):
            break
    return weights


@torch.no_grad()
def fit_weights(model: HybridForMultiLabel, data: MatchingData) -> dict[str, float]:
    """Choose the weights of the parts on dev, and a scale and offset that make the sum a probability."""
    dev = data.splits["validation"]
    truth, single = truth_of(dev), model.config.problem_type == "single_label_classification"
    scores = part_scores(model, dev, data.tokenizer)
    weights = choose_weights(scores, truth, single)
    total = np.tensordot(weights, scores, 1)
    if single:
        scale, offset = softmax_scale(total, truth.dense()), 0.0
    else:
        scale, offset = sigmoid_calibration(total.ravel(), truth.dense().ravel())
    model.part_weights.copy_(torch.from_numpy(scale * weights))
    model.bias.fill_(offset)
    model.config.unseen_logits = [float(part.mean(0).min()) for part in scores]
    return dict(zip(model.config.part_names, weights.tolist(), strict=True))


def save_words(data: MatchingData, folder: str) -> None:
    """Write the words' own tokenizer beside a model whose first tokenizer reads pieces."""
    if data.separate:
        with replacing(Path(folder) / MATCH_TOKENIZER_FILE) as partial:
            data.match_tokenizer.backend_tokenizer.save(str(partial))

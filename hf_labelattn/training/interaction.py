"""Joint models of a classifier and a matcher: the base, what they start from, and what their weights are fitted on."""

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from ..data.collator import ChunkedDocumentCollator
from ..data.description_vectors import description_vectors
from ..data.documents import DocumentDataset
from ..data.vectors import embedding_matrix
from ..models.configuration_interaction import InteractionConfig
from ..models.configuration_label_attention import PRESETS, LabelAttentionConfig
from ..models.configuration_leam import LEAMConfig
from ..models.configuration_tfidf_linear import TfidfLinearConfig
from ..models.modeling_interaction import InteractionForMultiLabel, word_table
from ..models.modeling_label_attention import LabelAttentionForMultiLabel
from ..models.modeling_leam import LEAMForSequenceClassification
from ..models.word_reading import MATCH_TOKENIZER_FILE
from ..storage import load_model, replacing
from .experiment import inherit_terms
from .interaction_data import MatchingData
from .linear import fit_tfidf_linear
from .starting_points import label_parents, set_label_prior

WITH_BACKBONE = ("bert", "plm_icd", "plm_ca")
# Model types that know a label by its training documents alone.
LEARN_FROM_DOCUMENTS = ("label_attention", "tfidf_linear", "plant")
FIT_ON = ("auto", "train", "cross_fit", "dev")


@dataclass
class InteractionArguments:
    """What is joined, and how."""

    base: str = field(
        default="caml",
        metadata={
            "help": "What the matcher is joined with: linear, leam, a preset of run_label_attention.py, bert (any "
            "transformer with a [CLS] classifier, see backbone), the folder of a trained classifier (any of this "
            "library's or transformers'), or none for the matcher alone."
        },
    )
    backbone: str | None = field(default=None, metadata={"help": "Transformer for bert, plm_icd and plm_ca."})
    combine: str = field(default="sum", metadata={"help": "How the two scores become one: sum, max or noisy_or."})
    score_scale: str = field(default="affine", metadata={"help": "Scale of the match: affine or paper."})
    term_weighting: str = field(
        default="uniform", metadata={"help": "Weight of a description's words: uniform, idf or learned."}
    )
    word_vectors: str | None = field(
        default=None, metadata={"help": "Vectors the matcher (and a new base) starts from; else those of the base."}
    )
    match: bool = field(default=True, metadata={"help": "False trains the base alone, to compare with."})
    freeze_base: bool = field(default=False, metadata={"help": "Leave a trained base as it is."})
    freeze_vectors: bool = field(default=False, metadata={"help": "Leave the matcher's word vectors as they are."})
    fit_on: str = field(
        default="auto",
        metadata={
            "help": "Documents the joint weights are fitted on: train; cross_fit (linear only): train, with scores of "
            "linear models that have not seen the document; dev: half of the development split. auto: cross_fit "
            "for linear, dev for a frozen base, else train."
        },
    )
    folds: int = field(default=5, metadata={"help": "Linear models fitted for cross_fit."})
    zero_shot: bool = field(
        default=False, metadata={"help": "No training: only label_file and word_vectors (and files to score)."}
    )
    base_overrides: dict | str | None = field(default=None, metadata={"help": "JSON of config fields of the base."})
    overrides: dict | str | None = field(
        default=None, metadata={"help": "JSON of config fields of the joint model, such as '{\"match_weight\": 5}'."}
    )

    def __post_init__(self):
        if isinstance(self.base_overrides, str):
            self.base_overrides = json.loads(self.base_overrides)
        if self.fit_on not in FIT_ON:
            raise ValueError(f"`fit_on` is {self.fit_on!r}, but must be one of {', '.join(FIT_ON)}.")
        if self.fit_on == "cross_fit" and self.base != "linear":
            raise ValueError(f"`fit_on=cross_fit` refits the base quickly: only `--base linear`, not {self.base}.")
        if self.folds < 2:
            raise ValueError(f"`folds` is {self.folds}, but must be at least 2.")
        if self.zero_shot:
            self._check_zero_shot()
        elif self.base == "linear":
            self.freeze_base = True
        if self.backbone and self.base == type(self).base:
            self.base = "bert"
        if bool(self.backbone) != (self.base in WITH_BACKBONE):
            names = ", ".join(WITH_BACKBONE)
            raise ValueError(f"`base` is {self.base} and `backbone` {self.backbone}: pass it with {names}, only.")

    def _check_zero_shot(self) -> None:
        if self.word_vectors is None:
            raise ValueError("`--zero_shot True` matches by word vectors. Pass `--word_vectors`.")
        self.base, self.backbone = "none", None

    @property
    def fits_on(self) -> str:
        """What `auto` stands for."""
        if self.fit_on != "auto":
            return self.fit_on
        if self.base == "linear":
            return "cross_fit"
        return "dev" if self.freeze_base else "train"

    @property
    def trained_base(self) -> str | None:
        """The folder of a trained base."""
        named = {"none", "linear", "leam", "bert", *PRESETS}
        if self.base in named:
            return None
        if not (Path(self.base) / "config.json").is_file():
            raise ValueError(
                f"There is no base {self.base!r}. Choose {', '.join(sorted(named))}, or the folder of a trained model."
            )
        return self.base


def load_trained_base(folder: str) -> PreTrainedModel:
    """A trained classifier, of this library or of transformers."""
    return load_model(AutoModelForSequenceClassification, folder)


def new_base(args: InteractionArguments, data: MatchingData) -> PreTrainedModel | None:
    """A base that is not trained yet, or (linear) fitted here."""
    fields = {**data.config_fields(), **(args.base_overrides or {})}
    if args.base == "none":
        return None
    if args.base == "linear":
        return fit_linear(data.splits["train"], data.splits["validation"], linear_config(args, data))
    if args.base == "bert":
        names = ("id2label", "label2id", "problem_type")
        options = {name: fields[name] for name in names} | (args.base_overrides or {})
        return AutoModelForSequenceClassification.from_pretrained(args.backbone, **options)
    if args.backbone is not None:
        return LabelAttentionForMultiLabel.from_backbone(args.backbone, args.base, **fields)
    return _word_base(args, data, fields)


def _word_base(args: InteractionArguments, data: MatchingData, fields: dict) -> PreTrainedModel:
    if args.base == "joint_laat":
        fields.setdefault("label_parents", label_parents(data.labels.names))
    if data.vectors is not None:
        fields.setdefault("embedding_size", data.vectors.dimensions)
    if args.base == "leam":
        base = LEAMForSequenceClassification(LEAMConfig(**fields))
    else:
        base = LabelAttentionForMultiLabel(LabelAttentionConfig.preset(args.base, **fields))
    if data.vectors is not None:
        table = data.match_vectors if not data.separate else embedding_matrix(data.tokenizer, data.vectors)[0]
        base.set_word_vectors(torch.from_numpy(table))
    if args.base == "leam" and data.vectors is not None:
        base.set_label_embeddings(description_vectors(data.labels.descriptions, data.tokenizer, data.vectors))
    if args.base == "dr_caml":
        base.set_label_descriptions(data.description_ids())
    return base


def start_at_prior(base: PreTrainedModel, data: MatchingData) -> None:
    """Start the label biases of a new base at the training frequencies."""
    bias = base.label_bias if hasattr(base, "label_bias") else getattr(_last_layer(base), "bias", None)
    if bias is not None:
        holder = base if hasattr(base, "label_bias") else _BiasOnly(bias)
        set_label_prior(holder, data.counts, len(data.splits["train"]))


@dataclass
class _BiasOnly:
    label_bias: nn.Parameter


def _last_layer(base: PreTrainedModel) -> nn.Module | None:
    return next((m for m in reversed(list(base.modules())) if isinstance(m, nn.Linear)), None)


def join_matcher(
    base: PreTrainedModel | None, data: MatchingData, args: InteractionArguments
) -> InteractionForMultiLabel:
    """The joint model: vectors, term weights and descriptions in place."""
    fields = {**data.config_fields(), **matching_fields(base, data, args), **(args.overrides or {})}
    fields = inherit_terms(fields, None if base is None else base.config)
    if base is None:
        model = InteractionForMultiLabel(InteractionConfig(**fields))
    else:
        kept = ("vocab_size", "pad_token_id")  # what the base reads is the base's to say
        model = InteractionForMultiLabel.from_base(base, **{k: v for k, v in fields.items() if k not in kept})
    if base is not None and args.match:
        leave_out_unseen(model)
    if data.match_vectors is not None:
        model.set_word_vectors(torch.from_numpy(data.match_vectors))
    elif word_table(base) is not None:
        model.set_word_vectors()
    if args.term_weighting != "uniform" and len(data.splits["train"]):
        model.set_term_weights(data.term_weights())
    if args.match:
        model.set_label_descriptions(data.labels.label2description, data.match_tokenizer)
    return model


def leave_out_unseen(model: InteractionForMultiLabel) -> None:
    """A base has no opinion on labels that no training document had: only noise, and a lesson that they are absent.

    Bases that read descriptions keep theirs.
    """
    config = model.base.config
    counts, attention = getattr(config, "training_counts", None), getattr(config, "attention", None)
    if counts and config.model_type in LEARN_FROM_DOCUMENTS and attention != "unit_mean":
        model.base_columns[: len(counts)][torch.tensor(counts) == 0] = -1


def matching_fields(base: PreTrainedModel | None, data: MatchingData, args: InteractionArguments) -> dict:
    """Config fields that follow from the arguments and the matcher's words."""
    fields = {"combine": args.combine, "score_scale": args.score_scale, "term_weighting": args.term_weighting}
    if args.zero_shot:
        fields["combine"] = "max"  # nothing speaks but the match, so the score is the match
    tokenizer = data.match_tokenizer
    fields["unk_token_id"] = tokenizer.unk_token_id
    special = sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
    fields["skipped_token_ids"] = special or None
    fields["match_vocab_size"] = len(tokenizer) if data.separate else None
    table = word_table(base) if data.match_vectors is None else data.match_vectors
    return fields | ({} if table is None else {"match_embedding_size": table.shape[1]})


def linear_config(args: InteractionArguments, data: MatchingData) -> TfidfLinearConfig:
    """Configuration of a linear base."""
    fields = {"unk_token_id": data.tokenizer.unk_token_id, **data.config_fields(), **(args.base_overrides or {})}
    return TfidfLinearConfig(**fields)


def fit_linear(train: DocumentDataset, dev: DocumentDataset, config: TfidfLinearConfig) -> PreTrainedModel:
    """A linear base, calibrated on the development split."""
    return fit_tfidf_linear(train.tokens, train.labels, config, dev=(dev.tokens, dev.labels))


def fold_of_group(groups: tuple[str, ...], folds: int) -> np.ndarray:
    """A fold for each document, by hash of its group: no group is in two folds."""
    return np.array([int(hashlib.sha256(f"fold:{g}".encode()).hexdigest()[:8], 16) % folds for g in groups])


def cross_fitted_logits(data: MatchingData, config: TfidfLinearConfig, folds: int) -> np.ndarray:
    """Logits `[documents, labels]` (float16) of the training documents, by linear models that have not seen them.

    A model is sure of the documents it was fitted on. Weights of a match beside such scores would be near zero.
    """
    train, dev = data.splits["train"], data.splits["validation"]
    fold = fold_of_group(train.groups or train.ids, folds)
    logits = np.zeros((len(train), config.num_labels), dtype=np.float16)
    for number in tqdm(range(folds), desc="cross-fitting", unit=" folds"):
        held = np.flatnonzero(fold == number)
        model = fit_linear(train.take(np.flatnonzero(fold != number)), dev, config)
        logits[held] = score_documents(model, train.take(held))
    return logits


@torch.no_grad()
def score_documents(model: PreTrainedModel, documents: DocumentDataset, batch: int = 64) -> np.ndarray:
    """Logits `[documents, labels]` of a model that reads whole documents."""
    collate = ChunkedDocumentCollator(documents.num_labels, pad_token_id=model.config.pad_token_id or 0)
    order, parts = np.argsort(documents.lengths, kind="stable"), []
    for start in range(0, len(order), batch):
        inputs = collate([documents[i] for i in order[start : start + batch]])
        parts.append(model(inputs["input_ids"], inputs["attention_mask"]).logits.float().numpy())
    logits = np.concatenate(parts) if parts else np.zeros((0, documents.num_labels), np.float32)
    return logits[np.argsort(order)]


def fitting_data(data: MatchingData, args: InteractionArguments) -> MatchingData:
    """The documents the joint weights are fitted on, as the train split; and honest scores of the base for them."""
    if args.zero_shot or args.fits_on == "train" or not args.match:
        return data
    train, dev = data.splits["train"], data.splits["validation"]
    if args.fits_on == "cross_fit":
        train = replace(train, base_logits=cross_fitted_logits(data, linear_config(args, data), args.folds))
    else:
        half = fold_of_group(dev.groups or dev.ids, 2) == 0
        train, dev = dev.take(np.flatnonzero(half)), dev.take(np.flatnonzero(~half))
        print(f"joint weights are fitted on {len(train):,} development documents, judged on the other {len(dev):,}")
    return replace(data, splits={**data.splits, "train": train, "validation": dev})


def frozen_parts(args: InteractionArguments) -> list[str]:
    """Regular expressions of the parameters that are not trained."""
    parts = [r"^base\."] if args.freeze_base and args.base != "none" else []
    return parts + ([r"^matcher\.embeddings\."] if args.freeze_vectors else [])


def has_free_parameters(model: PreTrainedModel, frozen: list[str]) -> bool:
    """Whether anything is left to train: a frozen base and frozen vectors on the paper's scale leave nothing."""
    return any(not any(re.search(part, name) for part in frozen) for name, _ in model.named_parameters())


def joint_rates(model: InteractionForMultiLabel, learning_rate: float) -> dict[str, float] | None:
    """Learning rates of the few numbers that join the two scores: all labels share them, so they can move faster."""
    return {r"^combination\.": 20 * learning_rate} if list(model.combination.parameters()) else None


def save_match_tokenizer(data: MatchingData, folder: str) -> None:
    """Write the matcher's own tokenizer beside the model, if it has one."""
    if data.separate:
        with replacing(Path(folder) / MATCH_TOKENIZER_FILE) as partial:
            data.match_tokenizer.backend_tokenizer.save(str(partial))

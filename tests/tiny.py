"""The one source of test data: tiny models, tiny documents, made on the spot."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast, PreTrainedModel

from hf_labelattn.data.documents import DocumentDataset, ragged
from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.models.configuration_awd_lstm import AwdLstmConfig
from hf_labelattn.models.configuration_interaction import InteractionConfig
from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.configuration_label_attention import PRESETS, LabelAttentionConfig
from hf_labelattn.models.configuration_leam import LEAMConfig
from hf_labelattn.models.configuration_plant import PlantConfig
from hf_labelattn.models.configuration_tfidf_linear import TfidfLinearConfig
from hf_labelattn.models.modeling_hybrid import HybridForMultiLabel
from hf_labelattn.models.modeling_interaction import InteractionForMultiLabel
from hf_labelattn.models.modeling_label_attention import LabelAttentionForMultiLabel
from hf_labelattn.models.modeling_leam import LEAMForSequenceClassification
from hf_labelattn.models.modeling_plant import PlantForICDCoding
from hf_labelattn.training.arguments import LabelAttnTrainingArguments
from hf_labelattn.training.linear import fit_tfidf_linear

VOCAB = 60
CHUNK = 8
SMALL = {
    "vocab_size": VOCAB,
    "embedding_size": 12,
    "hidden_size": 8,
    "attention_size": 6,
    "num_buckets": 100,
    "bottleneck_size": 16,
    "dropout": 0.0,
    "chunk_size": CHUNK,
    "bptt_chunks": 50,
}


def bert_config(**overrides) -> BertConfig:
    """A BERT of one layer."""
    sizes = {"vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertConfig(**{**sizes, **dropout, "intermediate_size": 16, "max_position_embeddings": 16, **overrides})


def zoo(preset: str) -> Callable[..., PreTrainedModel]:
    """A maker of one preset of the zoo, in small."""

    def make(num_labels: int = 5, **overrides) -> PreTrainedModel:
        fields = {**SMALL, "num_labels": num_labels, **overrides}
        if PRESETS[preset]["encoder"] == "transformer":
            fields["backbone_config"] = bert_config().to_dict()
        if preset == "joint_laat":
            fields["label_parents"] = [i // 2 for i in range(num_labels)]
        model = LabelAttentionForMultiLabel(LabelAttentionConfig.preset(preset, **fields))
        if preset == "dr_caml":
            model.set_label_descriptions([[2 + i % 50, 3 + i % 50] for i in range(num_labels)])
        return model.eval()

    return make


def awd_lstm_config(**overrides) -> AwdLstmConfig:
    """An AWD-LSTM of two layers, without dropout."""
    sizes = {"vocab_size": VOCAB, "embedding_size": 10, "hidden_size": 12, "num_hidden_layers": 2}
    return AwdLstmConfig(**{**sizes, "dropout_multiplier": 0.0, **overrides})


def plant(backbone: str = "awd_lstm", **options) -> Callable[..., PreTrainedModel]:
    """A maker of PLANT with a little relevance planted."""

    def make(num_labels: int = 5, **overrides) -> PreTrainedModel:
        encoder = awd_lstm_config() if backbone == "awd_lstm" else bert_config()
        ranker = {"vocab_size": VOCAB, "num_labels": num_labels, "embedding_size": 6, "hidden_size": 7}
        fields = {"vocab_size": VOCAB, "num_labels": num_labels, "chunk_size": CHUNK, "decoder_dropout": 0.0}
        fields |= {"encoder_config": encoder.to_dict(), "ranker_config": TokenRankerConfig(**ranker).to_dict()}
        if options.get("backward"):
            fields["backward_encoder_config"] = encoder.to_dict()
        fields |= {"inattention_k": 3, "relevance_size": 3 * num_labels}
        chosen = {name: value for name, value in options.items() if name != "backward"}
        model = PlantForICDCoding(PlantConfig(**{**fields, **chosen, **overrides}))
        return with_relevance(model).eval()

    return make


@torch.no_grad()
def with_relevance(model: PlantForICDCoding, seed: int = 2) -> PlantForICDCoding:
    """Plant three random tokens of relevance per label."""
    generator = torch.Generator().manual_seed(seed)
    for reader in (model.reader, model.backward_reader):
        if reader is not None:
            decoder, labels = reader.decoder, model.config.num_labels
            decoder.relevance_starts.copy_(torch.arange(labels + 1) * 3)
            rows = [torch.randperm(VOCAB - 2, generator=generator)[:3].sort().values + 2 for _ in range(labels)]
            decoder.relevance_tokens.copy_(torch.cat(rows))
            decoder.relevance_values.copy_(torch.rand(3 * labels, generator=generator))
    return model


def leam(**options) -> Callable[..., PreTrainedModel]:
    """A maker of LEAM with words of 12 numbers and phrases of 7 words, each of which counts."""

    def make(num_labels: int = 5, **overrides) -> PreTrainedModel:
        sizes = {"vocab_size": VOCAB, "embedding_size": 12, "window": 3, "classifier_dropout": 0.0}
        fields = {**sizes, "num_labels": num_labels, "chunk_size": CHUNK, **options, **overrides}
        model = LEAMForSequenceClassification(LEAMConfig(**fields)).eval()
        if model.attention.phrase_weight is not None:
            torch.nn.init.normal_(model.attention.phrase_weight)
        return model

    return make


def tfidf_linear(num_labels: int = 5, **overrides) -> PreTrainedModel:
    """The linear model, fitted on tiny documents."""
    rows = dataset(40, num_labels=min(num_labels, 5))
    names = {} if "id2label" in overrides else {"num_labels": num_labels}
    config = TfidfLinearConfig(vocab_size=VOCAB, **{"chunk_size": CHUNK, **names, **overrides})
    return fit_tfidf_linear(rows.tokens, rows.labels, config, n_jobs=1, progress=False)


def bert_classifier(num_labels: int = 5, **overrides) -> PreTrainedModel:
    """Transformers' own classifier on `[CLS]`."""
    names = {} if "id2label" in overrides else {"num_labels": num_labels}
    config = bert_config(problem_type="multi_label_classification", **names, **overrides)
    return BertForSequenceClassification(config).eval()


def interaction(make_base: Callable[..., PreTrainedModel] | None, **options) -> Callable[..., PreTrainedModel]:
    """A maker of a matcher joined with a base, or alone; every label is described by two words."""

    def make(num_labels: int = 5, **overrides) -> PreTrainedModel:
        names = {i: f"LABEL_{i}" for i in range(num_labels)}
        labels = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
        labels |= {name: overrides.pop(name) for name in ("id2label", "label2id") if name in overrides}
        fields = {"match_embedding_size": 10, "chunk_size": CHUNK, **labels, **options, **overrides}
        if make_base is None:
            model = InteractionForMultiLabel(InteractionConfig(vocab_size=VOCAB, **fields))
        else:
            model = InteractionForMultiLabel.from_base(make_base(**labels), **fields)
        texts = {name: f"w{i % 50} w{i % 50 + 1}" for i, name in labels["id2label"].items()}
        model.set_label_descriptions(texts, word_tokenizer([f"w{i}" for i in range(VOCAB - 2)]))
        return model.eval()

    return make


def hybrid(num_labels: int = 5, **overrides) -> PreTrainedModel:
    """CAML and a matcher over the linear model, together."""
    names = overrides.pop("id2label", None) or {i: f"LABEL_{i}" for i in range(num_labels)}
    labels = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    overrides.pop("label2id", None)
    parts = {"words": interaction(tfidf_linear)(num_labels, **labels), "caml": zoo("caml")(num_labels, **labels)}
    return HybridForMultiLabel.from_parts(parts, **overrides)


CLASSIFIERS: dict[str, Callable[..., PreTrainedModel]] = {preset: zoo(preset) for preset in PRESETS} | {
    "plant": plant(),
    "plant_backward": plant(direction="backward"),
    "plant_bidirectional": plant(backward=True),
    "plant_bert": plant("bert"),
    "plant_dot_zero_sigmoid": plant(inattention_mode="zero", static_norm="none", state="sigmoid"),
    "plant_max": plant(state="max"),
    "plant_stateless": plant(state="none"),
    "plant_with_evidence": plant(use_evidence=True, evidence_dropout=0.0),
    "leam": leam(),
    "leam_max": leam(pooling="max"),
    "tfidf_linear": tfidf_linear,
    "interaction": interaction(None),
    "interaction_caml": interaction(zoo("caml")),
    "interaction_leam": interaction(leam(), combine="max"),
    "interaction_plant": interaction(plant()),
    "interaction_bert": interaction(bert_classifier, combine="noisy_or"),
    "interaction_tfidf_linear": interaction(tfidf_linear),
    "hybrid": hybrid,
}


def documents(lengths=(21, 13, 5), seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Right-padded ids and mask `[B, chunks, T]`; the words are random."""
    generator = torch.Generator().manual_seed(seed)
    chunks = max(1, -(-max(lengths) // CHUNK))
    mask = torch.zeros(len(lengths), chunks * CHUNK, dtype=torch.long)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
    ids = torch.randint(2, VOCAB, mask.shape, generator=generator) * mask
    return ids.view(len(lengths), chunks, CHUNK), mask.view(len(lengths), chunks, CHUNK)


def targets(batch: int, num_labels: int = 5, seed: int = 1) -> torch.Tensor:
    """A multi-hot truth in which every label occurs if there is room for it."""
    generator = torch.Generator().manual_seed(seed)
    truth = (torch.rand(batch, num_labels, generator=generator) < 0.4).float()
    truth[torch.arange(num_labels) % batch, torch.arange(num_labels)] = 1.0
    return truth


# Models whose weights come from a fit instead of gradient steps.
FITTED = {"tfidf_linear", "interaction_tfidf_linear", "hybrid"}
# Models that pool tokens before labels come in.
WITHOUT_ATTENTION = {"cnn", "bigru", "xmlcnn", "fasttext", "swem", "sentence", "tfidf_linear", "hybrid"}


def dataset(count: int = 24, num_labels: int = 5, seed: int = 0, unseen: int = 0) -> DocumentDataset:
    """Documents in which label l shows as word 2 + l among random other words.

    Args:
        count: Number of documents.
        num_labels: Labels the model knows.
        seed: Seed of words and labels.
        unseen: Labels beyond those, each given to one document.
    """
    generator = np.random.default_rng(seed)
    tokens, labels = [], []
    for i in range(count):
        chosen = np.flatnonzero(generator.random(num_labels) < 0.4)
        words = generator.integers(2 + num_labels, VOCAB, generator.integers(3, 20))
        tokens.append(generator.permutation(np.concatenate([words, 2 + chosen])))
        labels.append([*chosen, *([num_labels + i] if i < unseen else [])])
    names = tuple(f"code {i}" for i in range(num_labels + unseen))
    ids = tuple(f"note {i}" for i in range(count))
    return DocumentDataset(ragged(tokens), ragged(labels), num_labels, names, ids, ids)


def training_arguments(folder, **overrides) -> LabelAttnTrainingArguments:
    """Arguments of a short, quiet training on the CPU."""
    quiet = {"output_dir": str(folder), "use_cpu": True, "disable_tqdm": True, "num_train_epochs": 2}
    quiet |= {"per_device_train_batch_size": 8, "learning_rate": 0.02}
    return LabelAttnTrainingArguments(**{**quiet, **overrides})


def save_bert(folder, words: list[str]) -> None:
    """A BERT checkpoint of one layer with a tokenizer of these words and pieces, as `--backbone` takes it."""
    folder.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    BertModel(bert_config(vocab_size=len(vocabulary))).save_pretrained(folder)


def write_sign_documents(folder: Path) -> Path:
    """Training and test documents as JSONL, in which every label shows as a word of its own."""
    generator = np.random.default_rng(0)
    for name, count in (("train", 60), ("test", 20)):
        with open(folder / f"{name}.jsonl", "w") as file:
            for i in range(count):
                labels = [f"0{k}" for k in range(5) if generator.random() < 0.4]
                words = [f"sign{label}" for label in labels] + [f"word{w}" for w in generator.integers(0, 20, 15)]
                row = {"id": f"{name}{i}", "text": " ".join(generator.permutation(words)), "labels": labels}
                file.write(json.dumps(row) + "\n")
    return folder

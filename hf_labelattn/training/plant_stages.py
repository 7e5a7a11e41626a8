"""The stages before PLANT's classifier, each cached in the output folder by what went into it."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from transformers import AutoConfig, set_seed

from ..models.backbones import load_transformer
from ..models.configuration_awd_lstm import AwdLstmConfig
from ..models.configuration_l2r import TokenRankerConfig
from ..models.configuration_plant import PlantConfig
from ..models.modeling_awd_lstm import AwdLstmForCausalLM
from ..models.modeling_l2r import TokenRankerModel
from ..models.modeling_plant import PlantForICDCoding
from ..models.modeling_tfidf_linear import TfidfLinearForMultiLabel
from ..planting.mutual_information import RelevanceCounter, TokenRelevance
from ..planting.plant import plant_attention
from ..planting.ranking import RankingArguments, train_token_ranker
from ..planting.weights_of_evidence import evidence_table, without_label
from ..storage import load_model, save_whole, write_json
from .experiment import PreparedData, inherit_terms
from .language_model import LanguageModelArguments, LanguageModelTrainer, train_language_model
from .starting_points import set_label_prior

logger = logging.getLogger(__name__)


@dataclass
class PlantArguments:
    """What PLANT is made of. Each stage can be skipped, and each ablation of the paper is one flag."""

    backbone: str | None = field(
        default=None,
        metadata={"help": "Transformer to read with (default: an AWD-LSTM trained on the text)."},
    )
    language_model: str | None = field(default=None, metadata={"help": "AWD-LSTM language model to start from."})
    direction: str = field(default="forward", metadata={"help": "forward, backward or both (the bidirectional pair)."})
    embedding_size: int = field(default=400, metadata={"help": "Width of AWD-LSTM word vectors and outputs."})
    hidden_size: int = field(default=1152, metadata={"help": "Width of its inner layers."})
    num_hidden_layers: int = field(default=3, metadata={"help": "Its layers."})
    lm_epochs: int = field(default=10, metadata={"help": "Language model epochs; 0 leaves it untrained."})
    lm_learning_rate: float = field(default=5e-3, metadata={"help": "Its highest rate."})
    relevant_tokens: int = field(default=1000, metadata={"help": "Tokens kept per label by mutual information."})
    l2r_scorer: str = field(default="mlp", metadata={"help": "mlp (paper) or dot."})
    l2r_embedding_size: int | None = field(
        default=None,
        metadata={"help": "Width of random embeddings of the ranker (default: the reader's own word vectors)."},
    )
    l2r_hidden_size: int = field(default=256, metadata={"help": "Hidden units of its mlp."})
    use_learned: bool = field(default=True, metadata={"help": "Attention learned from scratch."})
    use_static: bool = field(default=True, metadata={"help": "Attention by mutual information."})
    use_planted: bool = field(default=True, metadata={"help": "Attention of the ranker."})
    use_evidence: bool = field(
        default=False,
        metadata={"help": "Score labels also by how much relevance is found (not in the paper)."},
    )
    evidence_dropout: float = field(default=0.5, metadata={"help": "Share of documents trained without evidence."})
    inattention_k: int = field(default=10, metadata={"help": "Tokens of a chunk that survive; 0 for no inattention."})
    inattention_mode: str = field(default="mask", metadata={"help": "mask, or zero (the paper's literal form)."})
    static_norm: str = field(default="l1", metadata={"help": "l1, or none (paper)."})
    state: str = field(default="logit_sum", metadata={"help": "logit_sum, sigmoid, max, or none (stateless)."})
    chunk_size: int = field(default=72, metadata={"help": "Tokens per chunk."})
    decoder_dropout: float = field(default=0.2, metadata={"help": "Dropout before the decoder."})
    recipe: str = field(
        default="paper",
        metadata={"help": "paper (discriminative rates, gradual unfreezing), decoder_only, or plain."},
    )
    discriminative: bool = field(default=True, metadata={"help": "Smaller rates for encoder and planted attention."})
    gradual_unfreezing: bool = field(default=True, metadata={"help": "Unfreeze decoder, then ranker, then encoder."})
    prior: str | None = field(default=None, metadata={"help": "Linear model whose logits are added to PLANT's."})

    def __post_init__(self):
        choices = {"direction": ("forward", "backward", "both"), "recipe": ("paper", "decoder_only", "plain")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` is {getattr(self, name)!r}, but must be one of: {', '.join(allowed)}.")


class StageCache:
    """Runs a stage once per content: a stage whose inputs have not changed is read back from its folder."""

    def __init__(self, folder: str | Path, data: PreparedData):
        self.folder = Path(folder)
        self.data = fingerprint(data)

    def path(self, name: str, settings: dict, make: Callable[[Path], None]) -> Path:
        """The folder of a stage, made by `make(folder)` unless it is there and finished.

        Args:
            name: Name of the stage.
            settings: Everything besides the data that its result depends on.
            make: Does the work; called again on a folder it was interrupted in.
        """
        folder, key = self.folder / name, {"data": self.data, **settings}
        done, begun = folder / "stage.json", folder / "begun.json"
        if _says(done, key):
            logger.warning("stage %s: unchanged, taken from %s", name, folder)
            return folder
        _wait_for_everyone()  # nobody begins before all have looked
        if _is_first():
            if folder.exists() and not _says(begun, key):
                shutil.rmtree(folder)
            write_json(begun, key)
        _wait_for_everyone()
        make(folder)
        _wait_for_everyone()
        if _is_first():
            write_json(done, key)
        return folder


def _says(path: Path, key: dict) -> bool:
    """Whether a file holds the key; a damaged one does not."""
    try:
        return path.exists() and json.loads(path.read_text(encoding="utf-8")) == key
    except ValueError:
        return False


def _is_first() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def _wait_for_everyone() -> None:
    if dist.is_initialized():
        dist.barrier()


def fingerprint(data: PreparedData) -> str:
    """A hash of the training documents, their labels and the vocabulary."""
    train, digest = data.splits["train"], hashlib.sha256()
    for array in (train.tokens.values, train.tokens.starts, train.labels.values, train.labels.starts):
        digest.update(array.tobytes())
    digest.update(json.dumps([data.labels.names, len(data.tokenizer)]).encode())
    return digest.hexdigest()[:16]


def language_model_stage(
    cache: StageCache, data: PreparedData, args: PlantArguments, direction: str, seed: int, use_cpu: bool
) -> Path:
    """Train the word-level language model the classifier reads with."""
    sizes = {name: getattr(args, name) for name in ("embedding_size", "hidden_size", "num_hidden_layers")}
    settings = {**sizes, "lm_epochs": args.lm_epochs, "rate": args.lm_learning_rate, "seed": seed}

    def make(folder: Path) -> None:
        set_seed(seed)
        pad = data.tokenizer.pad_token_id
        config = AwdLstmConfig(vocab_size=len(data.tokenizer), pad_token_id=pad, direction=direction, **sizes)
        config.training_data = data.config_fields()["training_data"]
        model = AwdLstmForCausalLM(config)
        if args.lm_epochs == 0:
            save_whole(folder, model)
            return
        lm_args = LanguageModelArguments(
            str(folder), direction, args.lm_epochs, learning_rate=args.lm_learning_rate, seed=seed, use_cpu=use_cpu
        )
        documents = data.splits["train"].tokens, data.splits["validation"].tokens
        train_language_model(LanguageModelTrainer(model, data.tokenizer, *documents, lm_args))

    return cache.path(f"language_model_{direction}", {**settings, "direction": direction}, make)


def relevance_stage(cache: StageCache, data: PreparedData, args: PlantArguments) -> Path:
    """Mutual information of words and labels over the training documents."""

    def make(folder: Path) -> None:
        train = data.splits["train"]
        special = [i for i in data.tokenizer.all_special_ids if i is not None]
        counter = RelevanceCounter(len(data.tokenizer), data.labels.num_labels, special)
        counter.add_all(train.tokens, train.labels)
        table = counter.relevance(top_k=args.relevant_tokens)
        if args.use_evidence:
            words = [np.setdiff1d(ids, special) for ids in data.description_ids()]
            table = evidence_table(table, train.tokens, train.labels, words)
        table.save(folder / "relevance.safetensors")

    return cache.path("relevance", {"relevant_tokens": args.relevant_tokens, "evidence": args.use_evidence}, make)


def ranker_stage(
    cache: StageCache,
    data: PreparedData,
    args: PlantArguments,
    ranking: RankingArguments,
    relevance: TokenRelevance,
    vectors: torch.Tensor | None = None,
) -> Path:
    """Train the learning-to-rank model on the relevance table, starting from word vectors where there are any."""
    width = args.l2r_embedding_size if vectors is None else vectors.shape[1]
    sizes = {"scorer": args.l2r_scorer, "embedding": width, "hidden": args.l2r_hidden_size}
    settings = {**sizes, **asdict(ranking), "relevant_tokens": args.relevant_tokens, "evidence": args.use_evidence}
    settings["vectors"] = None if vectors is None else hashlib.sha256(vectors.numpy().tobytes()).hexdigest()[:16]

    def make(folder: Path) -> None:
        set_seed(ranking.ranking_seed)
        config = TokenRankerConfig(
            vocab_size=len(data.tokenizer),
            id2label=data.labels.id2label,
            label2id=data.labels.label2id,
            l2r_scorer=args.l2r_scorer,
            embedding_size=width,
            hidden_size=args.l2r_hidden_size,
            ndcg_k=ranking.ndcg_k,
        )
        model = TokenRankerModel(config)
        if vectors is not None:
            model.set_token_vectors(vectors)
            model.set_label_descriptions(data.description_ids())
        special = [i for i in data.tokenizer.all_special_ids if i is not None]
        report = train_token_ranker(model, relevance, ranking, special, checkpoint_dir=folder)
        save_whole(folder, model, data.tokenizer)
        measured = {name: round(value, 4) for name, value in report.ndcg.items()}
        print(f"ranker: nDCG@{ranking.ndcg_k} {measured} after epoch {report.best_epoch}")

    return cache.path("ranker", settings, make)


def word_vectors(model: PlantForICDCoding) -> torch.Tensor:
    """The word embeddings the classifier reads with."""
    return model.get_input_embeddings().weight.detach().float().cpu().clone()


def build_plant(
    data: PreparedData, args: PlantArguments, fields: dict, direction: str, language_model: Path | str | None
) -> PlantForICDCoding:
    """A classifier over the trained language model or a pretrained transformer, before planting."""
    names = ("use_learned", "use_static", "use_planted", "inattention_mode", "static_norm", "state")
    names = (*names, "chunk_size", "decoder_dropout", "use_evidence", "evidence_dropout")
    fields = {**fields, **{name: getattr(args, name) for name in names}}
    fields |= {"inattention_k": args.inattention_k or None, "direction": direction}
    if args.backbone is not None:
        model = PlantForICDCoding(PlantConfig(encoder_config=AutoConfig.from_pretrained(args.backbone), **fields))
        load_transformer(model.reader.encoder, args.backbone)
    else:
        trained = load_model(AwdLstmForCausalLM, language_model)
        fields = inherit_terms(fields, trained.config)
        model = PlantForICDCoding(PlantConfig(encoder_config=trained.config, **fields))
        model.reader.encoder.load_state_dict(trained.encoder.state_dict())
    set_label_prior(model, data.counts, len(data.splits["train"]))
    return model


@torch.no_grad()
def start_from_evidence(model: PlantForICDCoding, table: TokenRelevance, data: PreparedData) -> None:
    """Lower each label's bias by the evidence that documents without the label hold on average."""
    train = data.splits["train"]
    mean, _ = without_label(table, train.tokens, train.labels)
    model.label_bias.sub_(torch.from_numpy(mean).to(model.label_bias))


def add_prior(model: PlantForICDCoding, path: str) -> PlantForICDCoding:
    """The same classifier with a linear model's logits added; its own scores start at zero."""
    prior = load_model(TfidfLinearForMultiLabel, path)
    if prior.config.id2label != model.config.id2label:
        raise ValueError(f"The prior at {path} has other labels. Fit it on the same data, with `--preset linear`.")
    fields = {**model.config.to_dict(), "prior_config": prior.config.to_dict()}
    joined = PlantForICDCoding(PlantConfig.from_dict(fields))
    joined.load_state_dict({**model.state_dict(), **{f"prior.{k}": v for k, v in prior.state_dict().items()}})
    with torch.no_grad():
        joined.label_bias.zero_()
        joined.reader.decoder.weight.zero_()
        if joined.reader.decoder.evidence is not None:
            joined.reader.decoder.evidence.zero_()
    return joined


def plant_classifier(
    data: PreparedData, args: PlantArguments, ranking: RankingArguments, cache: StageCache, settings: dict
) -> PlantForICDCoding:
    """Run the stages and plant their results in a classifier that is ready to train.

    Args:
        data: The documents.
        args: What PLANT is made of.
        ranking: How the ranker is trained.
        cache: Where stages are kept.
        settings: `direction`, `seed`, `use_cpu` and the config `fields` of the data.
    """
    direction, lm = settings["direction"], args.language_model
    if args.backbone is None and lm is None:
        lm = language_model_stage(cache, data, args, direction, settings["seed"], settings["use_cpu"])
    set_seed(settings["seed"])  # a stage read back from its folder draws no random numbers
    model = build_plant(data, args, settings["fields"], direction, lm)
    if args.use_static or args.use_planted:
        relevance = TokenRelevance.load(relevance_stage(cache, data, args) / "relevance.safetensors")
        ranker = TokenRankerModel(model.config.ranker_config)
        ranker.config.id2label = data.labels.id2label
        if args.use_planted:
            vectors = word_vectors(model) if args.l2r_embedding_size is None else None
            ranker = load_model(TokenRankerModel, ranker_stage(cache, data, args, ranking, relevance, vectors))
        print(plant_attention(model, ranker, relevance, data.tokenizer))
        if args.use_evidence:
            start_from_evidence(model, relevance, data)
    return model if args.prior is None else add_prior(model, args.prior)


def apply_recipe(args: PlantArguments, training) -> None:
    """Set rates and unfreezing of the training arguments from the recipe, unless they are given."""
    rate = training.learning_rate
    if args.recipe == "paper" and args.discriminative and training.learning_rates is None:
        training.learning_rates = {r"\.encoder\.": rate / 5}
        if args.use_planted:
            training.learning_rates[r"\.ranker\."] = rate / 2
    if args.recipe == "paper" and args.gradual_unfreezing and training.unfreezing is None:
        groups = [r"\.decoder\.(query|weight|bias|evidence)", r"\.ranker\.", r"\.encoder\."]
        training.unfreezing = [group for group in groups if args.use_planted or "ranker" not in group]
    if args.recipe == "decoder_only" and training.frozen is None:
        training.frozen = [r"\.encoder\."]

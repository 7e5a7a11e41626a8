"""Label-attention text classification for the Hugging Face ecosystem."""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from ._version import __version__
from .data.chunking import ChunkLayout
from .data.codes import describe_icd, format_icd, parent_code, top_level_code
from .data.collator import ChunkedDocumentCollator
from .data.documents import DocumentDataset
from .data.labels import LabelSet, read_label_file
from .data.notes import NoteColumns, NotesError, describe_notes, load_notes
from .data.sampler import LengthAwareSampler
from .data.synthetic import synthetic_label_descriptions, synthetic_notes
from .data.tokenization import encode_documents, load_tokenizer, train_word_tokenizer
from .data.vectors import WordVectors, embedding_matrix, load_word_vectors
from .evaluation import (
    LabelAttnMetrics,
    StreamingMetrics,
    group_bootstrap,
    multilabel_metrics,
    randomization_test,
    search_threshold,
)
from .models.configuration_awd_lstm import AwdLstmConfig
from .models.configuration_label_attention import LabelAttentionConfig
from .models.configuration_leam import LEAMConfig
from .models.configuration_tfidf_linear import TfidfLinearConfig
from .models.modeling_awd_lstm import AwdLstmForCausalLM, AwdLstmModel
from .models.modeling_label_attention import LabelAttentionForMultiLabel
from .models.modeling_leam import LEAMForSequenceClassification
from .models.modeling_tfidf_linear import TfidfLinearForMultiLabel
from .models.outputs import LabelAttentionOutput
from .training.arguments import LabelAttnTrainingArguments
from .training.cli import parse_arguments, run
from .training.experiment import DataArguments, PreparedData, is_finished, make_trainer, prepare_data, train_and_report
from .training.linear import fit_tfidf_linear
from .training.starting_points import label_parents, load_embeddings, set_label_prior
from .training.trainer import LabelAttnTrainer

__all__ = [
    "AwdLstmConfig",
    "AwdLstmForCausalLM",
    "AwdLstmModel",
    "ChunkLayout",
    "ChunkedDocumentCollator",
    "DataArguments",
    "DocumentDataset",
    "LEAMConfig",
    "LEAMForSequenceClassification",
    "LabelAttentionConfig",
    "LabelAttentionForMultiLabel",
    "LabelAttentionOutput",
    "LabelAttnMetrics",
    "LabelAttnTrainer",
    "LabelAttnTrainingArguments",
    "LabelSet",
    "LengthAwareSampler",
    "NoteColumns",
    "NotesError",
    "PreparedData",
    "StreamingMetrics",
    "TfidfLinearConfig",
    "TfidfLinearForMultiLabel",
    "WordVectors",
    "__version__",
    "describe_icd",
    "describe_notes",
    "embedding_matrix",
    "encode_documents",
    "fit_tfidf_linear",
    "format_icd",
    "group_bootstrap",
    "is_finished",
    "label_parents",
    "load_embeddings",
    "load_notes",
    "load_tokenizer",
    "load_word_vectors",
    "make_trainer",
    "multilabel_metrics",
    "parent_code",
    "parse_arguments",
    "prepare_data",
    "randomization_test",
    "read_label_file",
    "run",
    "search_threshold",
    "set_label_prior",
    "synthetic_label_descriptions",
    "synthetic_notes",
    "top_level_code",
    "train_and_report",
    "train_word_tokenizer",
]

_CLASSIFIERS = {
    LabelAttentionConfig: LabelAttentionForMultiLabel,
    LEAMConfig: LEAMForSequenceClassification,
    TfidfLinearConfig: TfidfLinearForMultiLabel,
}
for _config, _model in _CLASSIFIERS.items():
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _model, exist_ok=True)
    AutoModelForSequenceClassification.register(_config, _model, exist_ok=True)
AutoConfig.register(AwdLstmConfig.model_type, AwdLstmConfig, exist_ok=True)
AutoModel.register(AwdLstmConfig, AwdLstmModel, exist_ok=True)
AutoModelForCausalLM.register(AwdLstmConfig, AwdLstmForCausalLM, exist_ok=True)

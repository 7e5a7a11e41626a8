"""Label-attention text classification for the Hugging Face ecosystem."""

from ._version import __version__
from .data.chunking import ChunkLayout
from .data.coded_stays import CodesTable
from .data.codes import describe_icd, format_icd, parent_code, top_level_code
from .data.collator import ChunkedDocumentCollator
from .data.dataset_files import describe_datasets
from .data.description_vectors import description_vectors, load_vector_table
from .data.documents import DocumentDataset
from .data.hospital_tables import prepare_tables
from .data.labels import LabelSet, read_label_file
from .data.mimic import find_mimic3, find_mimic4, prepare_mimic
from .data.mimic_subsets import mimic_subset_names
from .data.note_store import NotesTable
from .data.notes import NoteColumns, NotesError, describe_notes, load_notes
from .data.sampler import LengthAwareSampler
from .data.synthetic import synthetic_label_descriptions, synthetic_notes
from .data.synthetic_statistics import corpus_statistics, format_statistics
from .data.tokenization import RaggedIds, encode_documents, load_tokenizer, train_word_tokenizer
from .data.vectors import VectorsError, WordVectors, embedding_matrix, load_word_vectors
from .data.vocabulary import vector_tokenizer, with_words
from .evaluation import (
    StreamingMetrics,
    group_bootstrap,
    multilabel_metrics,
    randomization_test,
    search_threshold,
)
from .hub.card_index import collect_cards
from .hub.model_card import CardValues, card_from_folder, render_card
from .hub.push import push_folder
from .hub.terms import terms_of
from .inference.app import build_app, launch_app
from .inference.evidence import Evidence, evidence_quality, explain
from .inference.figures import (
    JointSpace,
    class_means,
    cosine_matrix,
    draw_cosine_matrix,
    draw_joint_space,
    joint_space,
)
from .inference.files import PredictionWriter, read_texts_to_code
from .inference.html import write_page
from .inference.match_figure import match_figure, match_figure_of
from .inference.matching import with_match_words
from .inference.note_page import ExplainedNote, explain_note
from .inference.onnx_export import export_onnx, onnx_difference
from .inference.onnx_reader import OnnxChunkReader
from .inference.pipeline import IcdCodingPipeline, register_pipeline
from .inference.prediction import Prediction, Predictor
from .inference.streaming import NoteReader
from .models.configuration_awd_lstm import AwdLstmConfig
from .models.configuration_hybrid import HybridConfig
from .models.configuration_interaction import InteractionConfig
from .models.configuration_l2r import TokenRankerConfig
from .models.configuration_label_attention import LabelAttentionConfig
from .models.configuration_leam import LEAMConfig
from .models.configuration_plant import PlantConfig
from .models.configuration_tfidf_linear import TfidfLinearConfig
from .models.functional_matching import hash_word, inverse_document_frequency, surface_hashes, window_characters
from .models.modeling_awd_lstm import AwdLstmForCausalLM, AwdLstmModel
from .models.modeling_hybrid import HybridForMultiLabel, HybridOutput
from .models.modeling_interaction import InteractionForMultiLabel, InteractionOutput
from .models.modeling_l2r import TokenRankerModel
from .models.modeling_label_attention import LabelAttentionForMultiLabel
from .models.modeling_leam import LEAMForSequenceClassification
from .models.modeling_plant import PlantForICDCoding
from .models.modeling_tfidf_linear import TfidfLinearForMultiLabel
from .models.outputs import LabelAttentionOutput
from .planting.mutual_information import RelevanceCounter, TokenRelevance
from .planting.plant import PlantingReport, plant_attention
from .planting.ranking import RankingArguments, train_token_ranker
from .registration import register_auto_classes
from .storage import load_model, replacing, save_whole, write_json, write_text
from .training.arguments import LabelAttnTrainingArguments
from .training.cli import parse_arguments, run
from .training.code_levels import level_metrics, roll_up
from .training.comparison import Comparison, Workshop, run_comparison
from .training.comparison_external import read_external
from .training.comparison_report import (
    collect,
    draw_cost_scatter,
    draw_frequency_bars,
    draw_gains,
    draw_learning_curves,
    markdown_tables,
    put_into_readme,
)
from .training.experiment import (
    DataArguments,
    PreparedData,
    data_marks,
    encode_split,
    evaluate_split,
    is_finished,
    make_trainer,
    prepare_data,
    read_notes,
    take_fraction,
    train_and_report,
)
from .training.fastai_weights import load_fastai_language_model
from .training.hybrid import LongTailArguments, add_pieces, fit_weights, load_part, save_words
from .training.interaction import (
    InteractionArguments,
    fit_linear,
    fitting_data,
    frozen_parts,
    has_free_parameters,
    join_matcher,
    joint_rates,
    linear_config,
    load_trained_base,
    new_base,
    save_match_tokenizer,
    start_at_prior,
)
from .training.interaction_data import MatchingData, prepare_matching_data
from .training.language_model import (
    LanguageModelArguments,
    LanguageModelTrainer,
    remove_checkpoints,
    train_language_model,
)
from .training.leam import new_leam, phrase_rate
from .training.linear import fit_tfidf_linear
from .training.plant_stages import PlantArguments, StageCache, apply_recipe, plant_classifier
from .training.results import metrics_table, write_label_results
from .training.scoring import threshold_logits
from .training.search import search_settings
from .training.sentence import fit_sentence, new_sentence_model
from .training.starting_points import label_parents, load_embeddings, set_label_prior
from .training.text_streams import read_texts
from .training.trainer import LabelAttnTrainer
from .training.vocabulary_transfer import VocabularyCoverage, transfer_vocabulary

__all__ = [
    "AwdLstmConfig",
    "AwdLstmForCausalLM",
    "AwdLstmModel",
    "CardValues",
    "ChunkLayout",
    "ChunkedDocumentCollator",
    "CodesTable",
    "Comparison",
    "DataArguments",
    "DocumentDataset",
    "Evidence",
    "ExplainedNote",
    "HybridConfig",
    "HybridForMultiLabel",
    "HybridOutput",
    "IcdCodingPipeline",
    "InteractionArguments",
    "InteractionConfig",
    "InteractionForMultiLabel",
    "InteractionOutput",
    "JointSpace",
    "LEAMConfig",
    "LEAMForSequenceClassification",
    "LabelAttentionConfig",
    "LabelAttentionForMultiLabel",
    "LabelAttentionOutput",
    "LabelAttnMetrics",
    "LabelAttnTrainer",
    "LabelAttnTrainingArguments",
    "LabelSet",
    "LanguageModelArguments",
    "LanguageModelTrainer",
    "LengthAwareSampler",
    "LongTailArguments",
    "MatchingData",
    "NoteColumns",
    "NoteReader",
    "NotesError",
    "NotesTable",
    "OnnxChunkReader",
    "PlantArguments",
    "PlantConfig",
    "PlantForICDCoding",
    "PlantingReport",
    "Prediction",
    "PredictionWriter",
    "Predictor",
    "PreparedData",
    "RaggedIds",
    "RankingArguments",
    "RelevanceCounter",
    "StageCache",
    "StreamingMetrics",
    "TfidfLinearConfig",
    "TfidfLinearForMultiLabel",
    "TokenRankerConfig",
    "TokenRankerModel",
    "TokenRelevance",
    "VectorsError",
    "VocabularyCoverage",
    "WordVectors",
    "Workshop",
    "__version__",
    "add_pieces",
    "apply_recipe",
    "build_app",
    "card_from_folder",
    "class_means",
    "collect",
    "collect_cards",
    "corpus_statistics",
    "cosine_matrix",
    "data_marks",
    "describe_datasets",
    "describe_icd",
    "describe_notes",
    "description_vectors",
    "draw_cosine_matrix",
    "draw_cost_scatter",
    "draw_frequency_bars",
    "draw_gains",
    "draw_joint_space",
    "draw_learning_curves",
    "embedding_matrix",
    "encode_documents",
    "encode_split",
    "evaluate_split",
    "evidence_quality",
    "explain",
    "explain_note",
    "export_onnx",
    "find_mimic3",
    "find_mimic4",
    "fit_linear",
    "fit_sentence",
    "fit_tfidf_linear",
    "fit_weights",
    "fitting_data",
    "format_icd",
    "format_statistics",
    "frozen_parts",
    "group_bootstrap",
    "has_free_parameters",
    "hash_word",
    "inverse_document_frequency",
    "is_finished",
    "join_matcher",
    "joint_rates",
    "joint_space",
    "label_parents",
    "launch_app",
    "level_metrics",
    "linear_config",
    "load_embeddings",
    "load_fastai_language_model",
    "load_model",
    "load_notes",
    "load_part",
    "load_tokenizer",
    "load_trained_base",
    "load_vector_table",
    "load_word_vectors",
    "make_trainer",
    "markdown_tables",
    "match_figure",
    "match_figure_of",
    "metrics_table",
    "mimic_subset_names",
    "multilabel_metrics",
    "new_base",
    "new_leam",
    "new_sentence_model",
    "onnx_difference",
    "parent_code",
    "parse_arguments",
    "phrase_rate",
    "plant_attention",
    "plant_classifier",
    "prepare_data",
    "prepare_matching_data",
    "prepare_mimic",
    "prepare_tables",
    "push_folder",
    "put_into_readme",
    "randomization_test",
    "read_external",
    "read_label_file",
    "read_notes",
    "read_texts",
    "read_texts_to_code",
    "register_auto_classes",
    "register_pipeline",
    "remove_checkpoints",
    "render_card",
    "replacing",
    "roll_up",
    "run",
    "run_comparison",
    "save_match_tokenizer",
    "save_whole",
    "save_words",
    "search_settings",
    "search_threshold",
    "set_label_prior",
    "start_at_prior",
    "surface_hashes",
    "synthetic_label_descriptions",
    "synthetic_notes",
    "take_fraction",
    "terms_of",
    "threshold_logits",
    "top_level_code",
    "train_and_report",
    "train_language_model",
    "train_token_ranker",
    "train_word_tokenizer",
    "transfer_vocabulary",
    "vector_tokenizer",
    "window_characters",
    "with_match_words",
    "with_words",
    "write_json",
    "write_label_results",
    "write_page",
    "write_text",
]

register_auto_classes()
register_pipeline()


def __getattr__(name: str):
    if name == "LabelAttnMetrics":
        from .evaluation import LabelAttnMetrics

        return LabelAttnMetrics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

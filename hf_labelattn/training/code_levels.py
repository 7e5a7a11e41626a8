"""Metrics of ICD coding at three levels: the code itself, its category, and its chapter.

A category or chapter has the highest score of the codes below it and is true where one of them is: naming 428.1 for
428.0 is wrong as a code and right as a category. Metrics keep their exact names at each level.
"""

import re
from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedConfig

from ..data.codes import CodeError, chapter_code, format_icd, top_level_code
from ..data.mimic_subsets import is_procedure
from ..evaluation.metrics import multilabel_metrics
from ..evaluation.targets import SparseTargets
from .scoring import SplitScores, logit, threshold_logits

CODE_LEVELS = {"code": format_icd, "category": top_level_code, "chapter": chapter_code}
_ONLY_ICD9 = re.compile(r"\d{3}(\.\d{1,2})?|\d{2}(\.\d{1,2})?|E\d{3}(\.\d)?")


def code_system_of(names: Sequence[str]) -> str:
    """Whether labels are ICD-9 or ICD-10 codes, by how they are written.

    >>> code_system_of(["V10.1", "428.0"]), code_system_of(["V10.1XXA", "I10", "02HV33Z"])
    ('icd9', 'icd10')
    """
    return "icd9" if any(_ONLY_ICD9.fullmatch(name) for name in names) else "icd10"


def codes_above(names: Sequence[str], level: str, system: str | None = None) -> list[tuple[str, str]]:
    """Kind and name of what stands above each code at a level; the two code lists never share a parent.

    Args:
        names: Codes as the published lists write them.
        level: "code", "category" or "chapter".
        system: "icd9" or "icd10"; by default what the names look like.
    """
    if level not in CODE_LEVELS:
        raise ValueError(f"`level` is {level!r}, but must be one of: {', '.join(CODE_LEVELS)}.")
    system, found = system or code_system_of(names), []
    for name in names:
        kind = "procedure" if is_procedure(name, system) else "diagnosis"
        try:
            found.append((kind, CODE_LEVELS[level](name, system, kind)))
        except CodeError as error:
            raise ValueError(f"Labels are not all ICD codes, so they have no levels: {error}") from None
    return found


def roll_up(scores: np.ndarray, targets: SparseTargets, parents: Sequence) -> tuple[np.ndarray, SparseTargets]:
    """Scores and truth of parents: the highest score below them, and whether anything below them is true.

    Args:
        scores: `[documents, labels]`.
        targets: The truth, of the same shape.
        parents: Parent of each label.
    """
    index = {parent: number for number, parent in enumerate(dict.fromkeys(parents))}
    above = np.array([index[parent] for parent in parents], dtype=np.int64)
    order = np.argsort(above, kind="stable")
    starts = np.searchsorted(above[order], np.arange(len(index)))
    highest = np.maximum.reduceat(scores[:, order], starts, axis=1)
    return highest, SparseTargets.from_pairs(targets.rows, above[targets.columns], highest.shape)


def level_metrics(split: SplitScores, config: PreTrainedConfig, system: str | None = None) -> dict[str, dict]:
    """Metrics of a split at every level, at the threshold stored in the model.

    Args:
        split: Scores of a split.
        config: The model's configuration. Where labels have thresholds of their own, their scores are first moved so
            that one threshold fits all.
        system: "icd9" or "icd10"; by default what the labels look like.
    """
    threshold, scores = logit(config.threshold), split.scores
    if config.label_thresholds is not None:
        scores = scores - (threshold_logits(config, scores.shape[1]) - threshold).astype(np.float32)
    found = {}
    for level in CODE_LEVELS:
        rolled, targets = roll_up(scores, split.targets, codes_above(split.dataset.label_names, level, system))
        found[level] = {**multilabel_metrics(rolled, targets, threshold), "num_labels": rolled.shape[1]}
    return found

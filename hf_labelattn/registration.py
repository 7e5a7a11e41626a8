"""Makes the classes known to transformers: `AutoModel` finds them, and a checkpoint carries their code.

A folder written by `save_pretrained` then loads in two ways: with `import hf_labelattn` and plain `AutoModel`, or with
`trust_remote_code=True` where this library is not installed. `push_to_hub` uploads such a folder, privately.
"""

from functools import wraps
from tempfile import TemporaryDirectory

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

from .hub.push import push_folder
from .models.configuration_awd_lstm import AwdLstmConfig
from .models.configuration_hybrid import HybridConfig
from .models.configuration_interaction import InteractionConfig
from .models.configuration_l2r import TokenRankerConfig
from .models.configuration_label_attention import LabelAttentionConfig
from .models.configuration_leam import LEAMConfig
from .models.configuration_plant import PlantConfig
from .models.configuration_tfidf_linear import TfidfLinearConfig
from .models.modeling_awd_lstm import AwdLstmForCausalLM, AwdLstmModel
from .models.modeling_hybrid import HybridForMultiLabel
from .models.modeling_interaction import InteractionForMultiLabel
from .models.modeling_l2r import TokenRankerModel
from .models.modeling_label_attention import LabelAttentionForMultiLabel
from .models.modeling_leam import LEAMForSequenceClassification
from .models.modeling_plant import PlantForICDCoding
from .models.modeling_tfidf_linear import TfidfLinearForMultiLabel

_CLASSIFIERS = {
    LabelAttentionConfig: LabelAttentionForMultiLabel,
    LEAMConfig: LEAMForSequenceClassification,
    PlantConfig: PlantForICDCoding,
    InteractionConfig: InteractionForMultiLabel,
    HybridConfig: HybridForMultiLabel,
    TfidfLinearConfig: TfidfLinearForMultiLabel,
}


def register_auto_classes() -> None:
    """Register every configuration and model of this library; calling it again changes nothing."""
    for config, model in _CLASSIFIERS.items():
        _register(config, {AutoModel: model, AutoModelForSequenceClassification: model})
    _register(TokenRankerConfig, {AutoModel: TokenRankerModel})
    _register(AwdLstmConfig, {AutoModel: AwdLstmModel, AutoModelForCausalLM: AwdLstmForCausalLM})


def _register(config: type, models: dict[type, type[PreTrainedModel]]) -> None:
    """Register a configuration and the class each Auto class builds from it."""
    AutoConfig.register(config.model_type, config, exist_ok=True)
    config.register_for_auto_class()
    auto_map = {auto.__name__: f"{_file(model)}.{model.__name__}" for auto, model in models.items()}
    for auto, model in models.items():
        auto.register(config, model, exist_ok=True)
        if "_auto_class" not in vars(model):
            model.register_for_auto_class(auto.__name__)
            _write_auto_map(model, auto_map)
            model.push_to_hub = push_to_hub


def _file(model: type) -> str:
    """The file of models/ a class is defined in, without its ending."""
    return model.__module__.rpartition(".")[2]


def _write_auto_map(model: type[PreTrainedModel], auto_map: dict[str, str]) -> None:
    """Let `save_pretrained` name the classes of all Auto classes; transformers by itself names that of one."""
    save = model.save_pretrained

    @wraps(save)
    def save_pretrained(self, *args, **kwargs):
        self.config.auto_map = {**(getattr(self.config, "auto_map", None) or {}), **auto_map}
        return save(self, *args, **kwargs)

    model.save_pretrained = save_pretrained


def push_to_hub(
    model: PreTrainedModel,
    repo_id: str,
    *,
    private: bool = True,
    i_have_permission: bool = False,
    commit_message: str = "Upload model",
    token: str | None = None,
    **save_options,
):
    """Upload the model with its code and card; becomes the method `push_to_hub` of every model.

    Args:
        model: The model.
        repo_id: Where to, as "organisation/name"; created if it does not exist.
        private: Unlike in transformers, True by default.
        i_have_permission: The owners of credentialed training data allowed publication.
        commit_message: What the Hub's history says.
        token: Access token; by default the one of `hf auth login` or `HF_TOKEN`.
        **save_options: Passed on to `save_pretrained`.
    """
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder, **save_options)
        options = {"public": not private, "i_have_permission": i_have_permission, "token": token}
        return push_folder(folder, repo_id, commit_message=commit_message, **options)

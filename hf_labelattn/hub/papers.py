"""What a checkpoint is and which papers it owes, told from its config.json."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A publication.

    Attributes:
        key: BibTeX key.
        authors: In BibTeX form.
        title: Title.
        year: Year.
        venue: Where it appeared.
    """

    key: str
    authors: str
    title: str
    year: int
    venue: str

    @property
    def bibtex(self) -> str:
        """The BibTeX entry."""
        fields = {"author": self.authors, "title": f"{{{self.title}}}", "year": self.year, "howpublished": self.venue}
        lines = [f"  {name:<12} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@misc{{{self.key},", *lines, "}"])


PLANT = Paper(
    "saharoy2024plant",
    "Saharoy, Debjyoti and Aslam, Javed A. and Pavlu, Virgil",
    "Don't Just Pay Attention, PLANT It: Transfer L2R Models to Fine-tune Attention in Extreme Multi-Label Text "
    "Classification",
    2024,
    "arXiv:2410.23066",
)
LEAM = Paper(
    "wang2018leam",
    "Wang, Guoyin and Li, Chunyuan and Wang, Wenlin and Zhang, Yizhe and Shen, Dinghan and Zhang, Xinyuan and "
    "Henao, Ricardo and Carin, Lawrence",
    "Joint Embedding of Words and Labels for Text Classification",
    2018,
    "ACL",
)
INTERACTION = Paper(
    "macavaney2020interaction",
    "MacAvaney, Sean and Dernoncourt, Franck and Chang, Walter and Goharian, Nazli and Frieder, Ophir",
    "Interaction Matching for Long-Tail Multi-Label Classification",
    2020,
    "arXiv",
)
AWD_LSTM = Paper(
    "merity2018regularizing",
    "Merity, Stephen and Keskar, Nitish Shirish and Socher, Richard",
    "Regularizing and Optimizing LSTM Language Models",
    2018,
    "ICLR",
)
CAML = Paper(
    "mullenbach2018explainable",
    "Mullenbach, James and Wiegreffe, Sarah and Duke, Jon and Sun, Jimeng and Eisenstein, Jacob",
    "Explainable Prediction of Medical Codes from Clinical Text",
    2018,
    "NAACL",
)
LAAT = Paper(
    "vu2020label",
    "Vu, Thanh and Nguyen, Dat Quoc and Nguyen, Anthony",
    "A Label Attention Model for ICD Coding from Clinical Text",
    2020,
    "IJCAI",
)
LIBLINEAR = Paper(
    "fan2008liblinear",
    "Fan, Rong-En and Chang, Kai-Wei and Hsieh, Cho-Jui and Wang, Xiang-Rui and Lin, Chih-Jen",
    "LIBLINEAR: A Library for Large Linear Classification",
    2008,
    "Journal of Machine Learning Research 9",
)
KIM = Paper("kim2014cnn", "Kim, Yoon", "Convolutional Neural Networks for Sentence Classification", 2014, "EMNLP")
MULTIRESCNN = Paper(
    "li2020multirescnn",
    "Li, Fei and Yu, Hong",
    "ICD Coding from Clinical Text Using Multi-Filter Residual Convolutional Neural Network",
    2020,
    "AAAI",
)
XMLCNN = Paper(
    "liu2017xmlcnn",
    "Liu, Jingzhou and Chang, Wei-Cheng and Wu, Yuexin and Yang, Yiming",
    "Deep Learning for Extreme Multi-label Text Classification",
    2017,
    "SIGIR",
)
FASTTEXT = Paper(
    "joulin2017bag",
    "Joulin, Armand and Grave, Edouard and Bojanowski, Piotr and Mikolov, Tomas",
    "Bag of Tricks for Efficient Text Classification",
    2017,
    "EACL",
)
SWEM = Paper(
    "shen2018baseline",
    "Shen, Dinghan and Wang, Guoyin and Wang, Wenlin and Min, Martin Renqiang and Su, Qinliang and Zhang, Yizhe and "
    "Li, Chunyuan and Henao, Ricardo and Carin, Lawrence",
    "Baseline Needs More Love: On Simple Word-Embedding-Based Models and Associated Pooling Mechanisms",
    2018,
    "ACL",
)
PLM_ICD = Paper(
    "huang2022plmicd",
    "Huang, Chao-Wei and Tsai, Shang-Chi and Chen, Yun-Nung",
    "PLM-ICD: Automatic ICD Coding with Pretrained Language Models",
    2022,
    "Clinical NLP Workshop",
)
PLM_CA = Paper(
    "edin2024unsupervised",
    "Edin, Joakim and Maistro, Maria and Maaløe, Lars and Borgholt, Lasse and Havtorn, Jakob D. and Ruotsalo, Tuukka",
    "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare Records",
    2024,
    "EMNLP",
)
SENTENCE_BERT = Paper(
    "reimers2019sentence",
    "Reimers, Nils and Gurevych, Iryna",
    "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks",
    2019,
    "EMNLP",
)
# Encoder and attention of `LabelAttentionConfig` to the name and the paper of the combination.
ZOO = {
    ("cnn", "max"): ("CNN", KIM),
    ("gru", "last"): ("Bi-GRU", CAML),
    ("cnn", "caml"): ("CAML", CAML),
    ("lstm", "laat"): ("LAAT", LAAT),
    ("lstm", "joint_laat"): ("JointLAAT", LAAT),
    ("multires", "caml"): ("MultiResCNN", MULTIRESCNN),
    ("cnn", "dynamic_max"): ("XML-CNN", XMLCNN),
    ("ngram_hash", "mean"): ("fastText", FASTTEXT),
    ("identity", "mean"): ("SWEM", SWEM),
    ("transformer", "laat"): ("PLM-ICD", PLM_ICD),
    ("transformer", "cross"): ("PLM-CA", PLM_CA),
    ("transformer", "unit_mean"): ("Sentence", SENTENCE_BERT),
}


def describe_model(config: dict) -> tuple[str, tuple[Paper, ...]]:
    """The name of a model and its papers, most specific first.

    >>> name, papers = describe_model({"model_type": "label_attention", "encoder": "cnn", "attention": "caml"})
    >>> name, papers[0].key
    ('CAML', 'mullenbach2018explainable')
    """
    model_type = config.get("model_type")
    if model_type == "plant":
        return _describe_plant(config)
    if model_type == "interaction":
        base = config.get("base_config")
        name, papers = describe_model(base) if base else ("", ())
        return f"interaction matching over {name}" if base else "interaction matching", (INTERACTION, *papers)
    if model_type == "hybrid":
        described = [describe_model(part) for part in config.get("part_configs") or []]
        papers = tuple(dict.fromkeys(paper for _, found in described for paper in found))
        return "sum of " + " and ".join(name for name, _ in described), papers
    if model_type == "label_attention":
        pair = (config.get("encoder", "cnn"), config.get("attention", "caml"))
        name, paper = ZOO.get(pair, (f"{pair[0]} encoder with {pair[1]} attention", CAML))
        return ("DR-CAML" if name == "CAML" and config.get("description_weight") else name), (paper,)
    alone = {
        "leam": ("LEAM", LEAM),
        "tfidf_linear": ("TF-IDF linear classifier", LIBLINEAR),
        "awd_lstm": ("AWD-LSTM language model", AWD_LSTM),
        "token_ranker": ("token ranker of PLANT", PLANT),
    }
    name, paper = alone.get(model_type, (f"{model_type} classifier", None))
    return name, () if paper is None else (paper,)


def _describe_plant(config: dict) -> tuple[str, tuple[Paper, ...]]:
    backbone = (config.get("encoder_config") or {}).get("model_type", "awd_lstm")
    papers = (PLANT, AWD_LSTM) if backbone == "awd_lstm" else (PLANT,)
    name = "PLANT over " + ("an AWD-LSTM" if backbone == "awd_lstm" else backbone)
    name += " in both directions" if config.get("backward_encoder_config") else ""
    if config.get("prior_config"):
        return f"{name}, with a TF-IDF linear prior", (*papers, LIBLINEAR)
    return name, papers

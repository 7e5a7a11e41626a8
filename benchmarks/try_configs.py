"""Two training steps of the files in run_scripts/configs at full size, on generated documents, with their memory.

    python -m benchmarks.try_configs plant_mimic3_full caml_mimic3_full        # minutes each on one core
    python -m benchmarks.try_configs                          # all but plm_icd, whose backbone must be downloaded

Documents come from the invented corpus, with words strewn in until the vocabulary has the size MIMIC's has; labels are
as many real ICD codes as the subset has (8,929, 7,942, 1,159 or 50). Language model and ranker are left untrained or
trained briefly: they have benchmarks of their own. PLANT reads 720 words of a document, which is the most it holds at
once anyway (`bptt_chunks` of 72 words); the others read what their file says.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tqdm.auto import tqdm

from hf_labelattn.data.codes import _icd9_tables, describe_icd, format_icd, icd10cm_billable_codes, top_level_code
from hf_labelattn.data.mimic_subsets import SUBSETS, Subset
from hf_labelattn.data.synthetic import synthetic_notes

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT / "run_scripts" / "configs"
SCRIPTS = {"plant": "run_plant.py", "leam": "run_leam.py", "interaction": "run_interaction.py"}
DOCUMENTS = {"train": 32, "validation": 8, "test": 8}
VOCABULARY = 50_000
SHORT = "--max_steps 2 --min_document_frequency 1"
PLANT = "--lm_epochs 0 --ranking_epochs 1 --refit False --max_tokens 720"


def codes_of(subset: Subset) -> dict[str, str]:
    """As many codes as the subset has, with titles."""
    if subset.system == "icd10":
        chosen = random.Random(0).sample(icd10cm_billable_codes(), subset.labels)
        return {code: describe_icd(code, "icd10").text for code in chosen}
    titles = {format_icd(code, "icd9"): title for code, title in _icd9_tables()["diagnosis"].items()}
    if subset.top_level:
        titles = {top_level_code(code, "icd9"): title for code, title in titles.items()}
        titles |= {str(10 + i): f"procedure {i}" for i in range(max(0, subset.labels - len(titles)))}
    return dict(random.Random(0).sample(sorted(titles.items()), subset.labels))


def write_data(folder: Path, subset: Subset) -> None:
    """The files of a subset, with few documents but all labels and words."""
    titles, draw = codes_of(subset), random.Random(0)
    names, folder = sorted(titles), folder / subset.name
    folder.mkdir(parents=True)
    rows = [{"label": label, "description": title} for label, title in titles.items()]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    notes = synthetic_notes(sum(DOCUMENTS.values()), seed=3)
    texts = iter(row["text"] for split in notes.values() for row in split)
    words = iter(f"word{number}x" for number in range(VOCABULARY))
    each = VOCABULARY // DOCUMENTS["train"]
    for split, count in DOCUMENTS.items():
        with open(folder / f"{split}.jsonl", "w", encoding="utf-8") as file:
            for number in range(count):
                strewn = [next(words) for _ in range(each)] if split == "train" else []
                text = f"{' '.join(strewn)} {next(texts)}"
                row = {"id": f"{split}{number}", "text": text, "labels": draw.sample(names, min(14, len(names) // 3))}
                file.write(json.dumps(row) + "\n")


def command(path: Path, data: Path, output: Path) -> list[str]:
    """The script and file as a user runs them, cut short."""
    kind = path.stem.split("_")[0]
    fields = json.loads(path.read_text())
    subset = Path(fields["train_file"]).parent.name
    words = [sys.executable, ROOT / "run_scripts" / SCRIPTS.get(kind, "run_label_attention.py"), path, *SHORT.split()]
    words += [word for split in DOCUMENTS for word in (f"--{split}_file", data / subset / f"{split}.jsonl")]
    words += ["--label_file", data / subset / "labels.jsonl", "--output_dir", output, "--use_cpu", "True"]
    return [str(word) for word in (*words, *(PLANT.split() if kind == "plant" else []))]


def try_config(path: Path, data: Path, output: Path) -> str:
    """Run a file; what it took, in one line."""
    started = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    with open(output.with_suffix(".log"), "w+") as log:
        process = subprocess.Popen(command(path, data, output), env=environment, stdout=log, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        log.seek(0)
        if status:
            return f"{path.stem:<40} FAILED\n{log.read()[-2000:]}"
    results = json.loads((output / "results.json").read_text())
    sizes = f"{results['num_parameters'] / 1e6:>7.1f}M parameters  {results['num_labels']:>6,} labels"
    seconds = f"{used.ru_utime:>5.0f} CPU s  {time.perf_counter() - started:>5.0f} s"
    took = f"{used.ru_maxrss / 2**20:>6.2f} GB peak  {seconds}"
    return f"{path.stem:<40}{sizes}  {results['vocabulary']:>7,} words  {took}"


def main() -> None:
    """The files named on the command line, or all."""
    known = {path.stem: path for path in sorted(CONFIGS.glob("*.json")) if not path.name.startswith("compare_")}
    names = sys.argv[1:] or [name for name in known if not name.startswith("plm_")]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"error: there is no {', '.join(unknown)}. Choose from: {', '.join(known)}.")
    with tempfile.TemporaryDirectory() as folder:
        subsets = {Path(json.loads(known[name].read_text())["train_file"]).parent.name for name in names}
        for subset in sorted(subsets):
            write_data(Path(folder) / "data", SUBSETS[subset])
        for name in tqdm(names, desc="configurations"):
            tqdm.write(try_config(known[name], Path(folder) / "data", Path(folder) / name), file=sys.stdout)


if __name__ == "__main__":
    main()

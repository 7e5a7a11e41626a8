"""Large CSV tables as a stream: every cell a string, every fault named, no cell quoted."""

import gzip

import pytest

from hf_labelattn.data import tables
from hf_labelattn.data.rows import NotesError
from hf_labelattn.data.tables import find_table, read_batches

TABLE = 'ID,CODE,NOTE\n1,0389,"secret ""word"",\nnext line"\n2,042,plain secret\n'


def cells(path, columns=("id", "code", "note")):
    batches = read_batches(path, list(columns), progress=False)
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_cells_are_strings_with_their_zeros_quotes_and_line_breaks(tmp_path, end, packed):
    path = tmp_path / f"table.csv{'.gz' if packed else ''}"
    content = TABLE.replace("\n", end).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    assert cells(path) == [("1", "0389", f'secret "word",{end}next line'), ("2", "042", "plain secret")]


def test_rows_across_the_end_of_a_block_are_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1000)
    path = tmp_path / "table.csv"
    path.write_text("id,note\n" + "".join(f'{i},"{"word, " * 100}\n{i}"\n' for i in range(50)))
    found = cells(path, ("id", "note"))
    assert len(found) == 50 and all(note.endswith(f"\n{number}") for number, note in found)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100)
    with pytest.raises(NotesError, match="a row is longer than"):
        cells(path, ("id", "note"))


def test_byte_order_mark_and_tabs(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_bytes("\ufeffID\tNOTE\n01\ta,b\n".encode())
    assert cells(path, ("id", "note")) == [("01", "a,b")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TABLE + "3,4,secret,5\n", "row 4: 4 cells, but the header has 3"),
        (TABLE + '3,4,"secret', "a quoted cell is never closed"),
        (TABLE + "3,4,secr\xe9t\n", "not UTF-8"),
        ("", "no column `id`; found an empty first line"),
        ("a,b\n1,2\n", "no column `id`; found a, b"),
    ],
)
def test_faults_are_named_and_no_cell_is_quoted(tmp_path, content, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode("latin1"))
    with pytest.raises(NotesError) as raised:
        cells(path)
    assert message in str(raised.value) and "secr" not in str(raised.value)


@pytest.mark.parametrize("kept", [0.5, 0.98])
def test_a_truncated_gz_is_an_error(tmp_path, kept):
    rows = "".join(f"{i},{i * 7919 % 1013},secret {i * 7907 % 10007}\n" for i in range(5000))
    packed = gzip.compress(b"ID,CODE,NOTE\n" + rows.encode())
    path = tmp_path / "table.csv.gz"
    path.write_bytes(packed[: int(kept * len(packed))])
    with pytest.raises(NotesError, match="ends too early or is damaged.*Download it again") as raised:
        cells(path)
    assert "secret" not in str(raised.value)


def test_tables_are_found_in_any_case_and_in_the_folders_of_mimic4(tmp_path):
    (tmp_path / "hosp").mkdir()
    (tmp_path / "hosp" / "diagnoses_icd.csv.gz").touch()
    (tmp_path / "NOTEEVENTS.csv").touch()
    assert find_table(tmp_path, "DIAGNOSES_ICD").name == "diagnoses_icd.csv.gz"
    assert find_table(tmp_path, "noteevents").name == "NOTEEVENTS.csv"
    with pytest.raises(NotesError, match=r"no table PROCEDURES_ICD\.csv or .*found NOTEEVENTS\.csv.*PhysioNet"):
        find_table(tmp_path, "PROCEDURES_ICD")
    with pytest.raises(NotesError, match="There is no folder"):
        find_table(tmp_path / "elsewhere", "noteevents")

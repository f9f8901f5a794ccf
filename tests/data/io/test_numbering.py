"""Names are numbered as they come, by loops as by Arrow, and sorted by their bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npugraph import compiling
from npugraph.data.io import numbering
from npugraph.data.io.names import _SUSPECT, _plain
from npugraph.data.io.numbering import Names, merged, number_column, sorted_order
from npugraph.errors import DataError

needs_numba = pytest.mark.skipif(
    not compiling.available(), reason="needs numba: pip install 'npugraph[fast]'"
)
# Names that have beginnings, lengths and words in common.
LETTERS = st.text(st.sampled_from("ab\x00é\u2028"), min_size=1, max_size=20)
NAMES = st.lists(LETTERS | LETTERS.map("http://example.org/".__add__), max_size=60)


def by_arrow(column: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_pylist()


@needs_numba
@pytest.mark.usefixtures("by_loops")
class TestLoops:
    @given(names=NAMES, cut=st.integers(0, 60), skipped=st.integers(0, 5))
    @settings(deadline=None)
    def test_columns_are_numbered_as_arrow_numbers_them(
        self, names: list[str], cut: int, skipped: int
    ) -> None:
        array = pa.array(names, pa.string())
        column = pa.chunked_array([array[skipped:cut], array[cut:], array[:0]], pa.string())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbering, "LEAST", 0)
            distinct, numbers = number_column(column)
        assert (distinct.to_pylist(), numbers.tolist()) == by_arrow(column)
        assert numbers.dtype == np.int32

    def test_a_column_without_chunks_has_no_names(self) -> None:
        distinct, numbers = number_column(pa.chunked_array([], pa.string()))
        assert (len(distinct), len(numbers)) == (0, 0)

    def test_names_are_found_again_when_the_table_has_grown(self) -> None:
        rng = np.random.default_rng(0)
        words = [f"{'long ' * (i % 5)}{i}" for i in range(30_000)]
        names = Names()
        order = rng.permutation(len(words))
        array = pa.array(words).take(pa.array(order))
        text = np.frombuffer(array.buffers()[2], np.uint8)
        offsets = np.frombuffer(array.buffers()[1], np.int32).astype(np.int64)
        assert names.add(text, offsets).tolist() == list(range(len(words)))
        assert names.add(text, offsets).tolist() == list(range(len(words)))
        assert names.labels().equals(array)
        assert names.count == len(words)

    @pytest.mark.parametrize("rows", [1, 7, 33])
    def test_names_are_copied_some_at_a_time(
        self, rows: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(numbering, "ROWS", rows)
        column = pa.chunked_array([[str(i * i % 41) for i in range(100)]])
        distinct, numbers = number_column(column)
        assert (distinct.to_pylist(), numbers.tolist()) == by_arrow(column)

    def test_too_large_names_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(numbering, "MOST_BYTES", 3)
        with pytest.raises(DataError, match=r"--spill FOLDER"):
            number_column(pa.chunked_array([["abcd", "abcd"]]))

    @given(several=st.lists(NAMES, min_size=1, max_size=4), mixed=st.booleans())
    @settings(deadline=None)
    def test_names_of_several_are_put_together(self, several: list[list[str]], mixed: bool) -> None:
        made = []
        for words in several:
            names, array = Names(), pa.array(words, pa.string())
            text = np.frombuffer(array.buffers()[2] or b"", np.uint8)
            offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(words) + 1]
            names.add(text, offsets.astype(np.int64))
            made.append(names)
        own = [names.labels().to_pylist() for names in made]
        some: list[Names | pa.Array] = [*made]
        if mixed:
            some[::2] = [names.labels() for names in made[::2]]
        labels, places = merged(some)
        assert len(set(labels.to_pylist())) == len(labels)
        assert {name for words in own for name in words} == set(labels.to_pylist())
        for words, place in zip(own, places, strict=True):
            assert labels.take(pa.array(place)).to_pylist() == words


def test_too_large_names_are_refused_by_arrow_too() -> None:
    class Column:
        nbytes = 2**40
        type = pa.large_string()

        def dictionary_encode(self) -> None:
            raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")

    with pytest.raises(DataError, match=r"--spill FOLDER"):
        number_column(Column())


@given(names=NAMES.map(set).map(list), skipped=st.integers(0, 3))
def test_names_are_sorted_by_their_bytes(names: list[str], skipped: int) -> None:
    array = pa.array(names, pa.string())[skipped:]
    assert sorted_order(array).tolist() == pc.sort_indices(array).to_pylist()


@given(names=NAMES, more=LETTERS | st.text(st.characters(max_codepoint=127), min_size=1))
def test_plain_names_need_no_second_look(names: list[str], more: str) -> None:
    array = pa.array([*names, more])
    if _plain(array):
        assert not pc.any(pc.match_substring_regex(array, _SUSPECT)).as_py()


def test_identifiers_are_plain() -> None:
    assert _plain(pa.array(["Q42", "http://example.org/~x", "!"]))
    assert _plain(pa.array([], pa.string()))
    assert not _plain(pa.array(["The Gambia"]))


@needs_numba
@pytest.mark.usefixtures("by_loops")
def test_an_empty_part_of_a_column_needs_no_buffers() -> None:
    nothing = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    names, numbers = number_column(pa.chunked_array([nothing, pa.array(["b", "a", "b"])]))
    assert (names.to_pylist(), numbers.tolist()) == (["b", "a"], [0, 1, 0])

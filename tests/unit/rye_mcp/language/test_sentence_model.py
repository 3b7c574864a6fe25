"""A sentence model from a file of the user takes the place of the word table; models here are made by hand.

The model of a test knows a vector for each token and does nothing else: what an ONNX file says of that is few
fields of protobuf. Without the extra, which the tests that read a model need, the rest is tested.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from rye_mcp.app import App, Settings
from rye_mcp.language.meaning import TableError, similarity
from rye_mcp.language.sentence_model import SentenceModel
from rye_mcp.verbs.search import SearchRequest, search
from tests.catalog_world import tool

VECTORS = {
    "[UNK]": (0.0, 0.0, 0.0, 0.0),
    "film": (1.0, 0.1, -0.5, 0.0),
    "movie": (0.9, 0.2, -0.5, 0.0),
    "soup": (-0.5, 1.0, 0.2, 0.1),
}
needs_extra = pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("tokenizers")), reason="the extra is not installed"
)


def field(number: int, value: int | bytes) -> bytes:
    """A field of protobuf: a number, or bytes with their length in front."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    head = b""
    while value >= 0x80:
        head += bytes([value & 0x7F | 0x80])
        value >>= 7
    return head + bytes([value])


def typed(name: str, element: int, *dimensions: str) -> bytes:
    """What is given or returned: a tensor of this type and shape."""
    shape = b"".join(field(1, field(2, each.encode())) for each in dimensions)
    return field(1, name.encode()) + field(2, field(1, field(1, element) + field(2, shape)))


def model(vectors: Mapping[str, tuple[float, ...]], asked: str = "input_ids") -> bytes:
    """A model that looks each token up: Gather(embedding, input_ids)."""
    real, whole = 1, 7  # as ONNX numbers its types
    values = b"".join(struct.pack("<f", each) for row in vectors.values() for each in row)
    size = len(next(iter(vectors.values())))
    embedding = (
        field(1, len(vectors)) + field(1, size) + field(2, real) + field(8, b"embedding") + field(9, values)
    )
    node = field(1, b"embedding") + field(1, asked.encode()) + field(2, b"found") + field(4, b"Gather")
    graph = field(1, node) + field(2, b"lookup") + field(5, embedding)
    graph += field(11, typed(asked, whole, "batch", "length"))
    graph += field(12, typed("found", real, "batch", "length", "size"))
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 13))


def tokenizer(words: Mapping[str, object]) -> str:
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": {"type": "Lowercase"},
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": None,
            "decoder": None,
            "model": {
                "type": "WordLevel",
                "vocab": {word: number for number, word in enumerate(words)},
                "unk_token": "[UNK]",
            },
        }
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "model.onnx").write_bytes(model(VECTORS))
    (directory / "tokenizer.json").write_text(tokenizer(VECTORS), encoding="utf-8")
    return directory


def item(**said: str) -> Mapping[str, str]:
    fields = ("name", "title", "description", "tags", "parameters", "examples", "body")
    return dict.fromkeys(fields, "") | said


@needs_extra
def test_texts_have_the_vectors_that_the_model_gives_their_tokens(directory: Path) -> None:
    found = SentenceModel.load(directory)
    film, soup, nothing, both = found.of_items(
        [item(name="film"), item(description="Soup"), item(body="film"), item(name="film", tags="movie")]
    )
    assert film == found.of_text("Film", ["film"])
    assert nothing == b""
    assert len(film) == 4
    assert similarity(film, found.of_text("a movie", ["a", "movie"])) > 0.95
    assert similarity(both, film) > 0.95
    assert similarity(film, soup) < 0


@needs_extra
def test_many_items_keep_their_order(directory: Path) -> None:
    found = SentenceModel.load(directory)
    items = [item(name=("film " * (number % 7) + "soup").strip()) for number in range(100)]
    assert found.of_items(items) == [found.of_text(each["name"], []) for each in items]


@needs_extra
def test_another_model_or_tokenizer_has_another_identity(directory: Path) -> None:
    first = SentenceModel.load(directory).identity
    (directory / "tokenizer.json").write_text(tokenizer(dict(VECTORS) | {"pea": 0}), encoding="utf-8")
    second = SentenceModel.load(directory).identity
    (directory / "model.onnx").write_bytes(model(dict(VECTORS) | {"film": (0.5, 0.5, 0.5, 0.5)}))
    assert len({first, second, SentenceModel.load(directory).identity}) == 3


@needs_extra
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.onnx", None, "expected model.onnx of the sentence model, found none"),
        ("tokenizer.json", None, "expected tokenizer.json of the sentence model, found none"),
        ("model.onnx", b"no model", "expected a sentence model in .*, found none"),
        ("tokenizer.json", b"{}", "expected a sentence model in .*, found none"),
        ("model.onnx", model(VECTORS, asked="pixels"), "asks for attention_mask, .*, found pixels"),
        ("tokenizer.json", b"another model's", "expected vectors of the sentence model, found an error"),
    ],
)
def test_what_is_no_sentence_model_is_refused(
    directory: Path, name: str, content: bytes | None, said: str
) -> None:
    (directory / name).unlink()
    if content == b"another model's":
        content = tokenizer(dict.fromkeys([f"w{number}" for number in range(9)] + ["[UNK]"])).encode()
    if content is not None:
        (directory / name).write_bytes(content)
    with pytest.raises(TableError, match=said):
        SentenceModel.load(directory)


def app_of(tmp_path: Path, directory: Path) -> App:
    for name, description in (("a", "make a soup tonight"), ("b", "make a movie tonight")):
        path = tmp_path / f"project/.ai/tools/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tool("", description))
    environment = {"RYE_SENTENCE_MODEL": str(directory), "HOME": str(tmp_path)}
    return App.open(
        Settings.find(
            project=tmp_path / "project",
            user_directory=tmp_path / "home",
            state=tmp_path / "state",
            cache=tmp_path / "cache",
            environment=environment,
        )
    )


def first_of(app: App) -> tuple[list[str], tuple[str, ...]]:
    """What a wish finds, passed or not, and the notices of the catalog."""
    with app.catalog() as catalog:
        catalog.refresh()
        found = search(
            SearchRequest("film tonight make", space=app.spaces.require_project().name),
            app.context(),
            catalog,
        )
        return [shown.item_id for shown in found.results], catalog.notices


@needs_extra
def test_search_compares_by_the_model_that_the_environment_names(tmp_path: Path, directory: Path) -> None:
    ids, notices = first_of(app_of(tmp_path, directory))
    assert ids == ["b", "a"]
    assert notices == ()


def test_without_a_model_that_can_be_used_words_are_found_with_a_notice(tmp_path: Path) -> None:
    ids, (notice,) = first_of(app_of(tmp_path, tmp_path / "nowhere"))
    assert sorted(ids) == ["a", "b"]
    assert notice.startswith("search only compares words")
    assert "sentence model" in notice

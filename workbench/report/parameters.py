"""Which notebooks are run, and which values each is given."""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.errors import InputError, MissingError

_MERGE = "tag:yaml.org,2002:merge"
# What reads as no text in YAML 1.2's core schema: the pattern, and the characters it starts with.
_SCALARS = {
    "tag:yaml.org,2002:bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    "tag:yaml.org,2002:int": (r"^[-+]?[0-9]+$", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
}


def find(notebooks: Iterable[str | os.PathLike] | None) -> list[Path]:
    """The files that `notebooks` names: paths, or the beginnings of our notebooks' names."""
    own = sorted(paths.NOTEBOOKS.glob("*.ipynb")) if paths.NOTEBOOKS.is_dir() else []
    if notebooks is None:
        if not own:
            raise MissingError(f"There are no notebooks in {paths.NOTEBOOKS}.")
        return own
    files = []
    for asked in map(str, notebooks):
        matches = _begins(own, asked)
        if Path(asked).is_file():
            files.append(Path(asked).resolve())
        elif len(matches) == 1:
            files.append(matches[0])
        else:
            known = ", ".join(f.stem for f in own)
            what = "more than one notebook" if matches else "no file and no notebook of ours"
            raise InputError(f"{asked!r} names {what}; give a path, or one of: {known}")
    stems = [f.stem for f in files]
    if twice := {s for s in stems if stems.count(s) > 1}:
        raise InputError(f"Two notebooks would be written to the same page: {', '.join(twice)}")
    if "index" in stems:
        raise InputError(
            "A notebook named index would be written over the report's index.html; "
            "give it another name"
        )
    return files


def _begins(files: Iterable[Path], asked: str) -> list[Path]:
    """The files whose name is `asked` or begins so; 1 is the notebook 01, never 10."""
    files = list(files)
    start = f"{int(asked):02}_" if asked.isdecimal() else asked
    return [f for f in files if f.stem == asked] or [f for f in files if f.stem.startswith(start)]


def from_file(file: str | os.PathLike) -> dict[str, Any]:
    """The parameters in a YAML or JSON file, as `distribute` takes them.

    A name with a value is meant for every notebook that declares it; a notebook's name, or the
    number it begins with, holds values for that notebook alone:

        tile_length: 1024
        "02": {archs: [dav-2201]}

    Raises:
        InputError: It cannot be read or parsed, or is not such a mapping.
    """
    path = Path(file)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}.") from error
    try:
        found = _parse(text, path)
    except RecursionError:
        raise InputError(f"{path} is nested too deep; give plain values and lists") from None
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise InputError(f"{path} is not {kind}: {' '.join(str(error).split())}.") from error
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise InputError(
            f"{path} holds a {type(found).__name__}; wanted names with values, such as "
            "tile_length: 1024"
        )
    # YAML reads 02 without quotes as a number.
    named = {f"{k:02}" if type(k) is int else k: v for k, v in found.items()}
    try:
        for name, value in named.items():
            _check(path, name, value)
    except RecursionError:  # YAML's aliases can make a list that holds itself
        raise InputError(f"{path}: a value holds itself; give plain values and lists") from None
    return named


def _parse(text: str, path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(text, object_pairs_hook=_once)
    import yaml

    class Loader(yaml.SafeLoader):
        """Scalars as YAML 1.2 and JSON have them: `no` and `12:30` are text, 1e-3 is a number.

        Says so where a name stands twice; YAML's own takes the last one.
        """

        yaml_implicit_resolvers: dict = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            own = [key for key, _ in node.value if key.tag != _MERGE]
            _refuse_twice([self.construct_object(key, deep=True) for key in own])
            return super().construct_mapping(node, deep)

        def construct_whole(self, node: Any) -> int:
            return int(node.value)  # 010 is ten

    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items():
        kept = [(tag, pattern) for tag, pattern in found if tag not in _SCALARS]
        Loader.yaml_implicit_resolvers[first] = kept
    for tag, (pattern, starts) in _SCALARS.items():
        Loader.add_implicit_resolver(tag, re.compile(pattern), list(starts))
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_whole)
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    _refuse_twice([name for name, _ in pairs])
    return dict(pairs)


def _refuse_twice(names: list[Any]) -> None:
    if twice := [str(name) for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is given twice")


def _check(path: Path, name: Any, value: Any) -> None:
    """Refuse what a parameters cell could not be given."""
    if not isinstance(name, str):
        raise InputError(f"{path}: {name!r} is no name; put it in quotes")
    items: Iterable[Any] = ()
    if isinstance(value, dict):
        for key, inner in value.items():
            _check(path, key, inner)
    elif isinstance(value, list):
        items = value
    elif not (value is None or isinstance(value, (bool, int, float, str))):
        raise InputError(
            f"{path}: {name} is read as a {type(value).__name__}; put {value} in quotes, or give "
            "a number, a text, a list or true/false"
        )
    for item in items:
        _check(path, name, item)


def distribute(
    declared: Mapping[Path, Mapping[str, str]], *sources: Mapping[str, Any]
) -> dict[Path, dict[str, Any]]:
    """For each notebook the values it is given; a later source wins over an earlier one, and
    within one source a value for one notebook wins over one for all.

    Raises:
        InputError: No notebook declares such a parameter, or that notebook does not.
    """
    given: dict[Path, dict[str, Any]] = {file: {} for file in declared}
    known = sorted(set().union(*declared.values()))
    for source in sources:
        alone = {name: _named(declared, name, value) for name, value in source.items()}
        every = {k: v for k, v in source.items() if alone[k] is None}
        if unknown := sorted(k for k in every if k not in known):
            close = difflib.get_close_matches(unknown[0], known, 1)
            raise InputError(
                f"No notebook that is run has the parameter {', '.join(unknown)}; "
                f"they have: {', '.join(known) or 'none'}"
                + (f". Did you mean {close[0]}?" if close else "")
            )
        for file, names in declared.items():
            given[file] |= {
                k: _fitting(file, k, v, names[k]) for k, v in every.items() if k in names
            }
        for name, file_named in alone.items():
            if file_named is None or file_named == Path():  # Path(): ours, but not run this time
                continue
            names = declared[file_named]
            if unknown := sorted(set(source[name]) - set(names)):
                raise InputError(
                    f"{file_named.stem} has no parameter {', '.join(unknown)}; "
                    f"it has: {', '.join(names) or 'none'}"
                )
            given[file_named] |= {
                k: _fitting(file_named, k, v, names[k]) for k, v in source[name].items()
            }
    return given


def _fitting(file: Path, name: str, value: Any, default: str) -> Any:
    """`value`, if it is of the kind of the notebook's own: not 40 where a list stands."""
    try:
        own = ast.literal_eval(default)
    except (ValueError, SyntaxError):
        return value  # computed, so what it wants is not known here
    if own is not None and not _like(value, own):
        raise InputError(
            f"{file.stem}: {name} is {value!r}; wanted {_kind(own)}, such as {default}"
        )
    return value


def _like(value: Any, own: Any) -> bool:
    if isinstance(own, (list, tuple)):
        kinds = {_kind(item): item for item in own}
        return isinstance(value, (list, tuple)) and (
            len(kinds) != 1 or all(_like(item, next(iter(kinds.values()))) for item in value)
        )
    if isinstance(own, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is type(own)


def _kind(own: Any) -> str:
    if isinstance(own, (list, tuple)):
        kinds = {_kind(item) for item in own}
        return f"a list, each item {kinds.pop()}" if len(kinds) == 1 else "a list"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return words.get(type(own), f"a {type(own).__name__}")


def _named(declared: Mapping[Path, Any], name: str, value: Any) -> Path | None:
    """The notebook that `name` means, where it holds a mapping for one."""
    if not isinstance(value, dict):
        return None
    matches = _begins(declared, name)
    if len(matches) == 1:
        return matches[0]
    if any(name in names for names in declared.values()):
        return None  # a parameter whose value is a dict
    ours = paths.NOTEBOOKS.glob("*.ipynb") if paths.NOTEBOOKS.is_dir() else ()
    if not matches and len(_begins(ours, name)) == 1:
        return Path()
    what = "more than one notebook" if matches else "no notebook of this report"
    raise InputError(
        f"Parameters for {name!r}: that names {what}; they are: "
        + ", ".join(f.stem for f in declared)
    )

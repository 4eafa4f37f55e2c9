"""Which notebooks are run, and which values each is given."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.errors import InputError, MissingError


def find(notebooks: Iterable[str | os.PathLike] | None) -> list[Path]:
    """The files that `notebooks` names: paths, or the beginnings of our notebooks' names."""
    own = sorted(paths.NOTEBOOKS.glob("*.ipynb")) if paths.NOTEBOOKS.is_dir() else []
    if notebooks is None:
        if not own:
            raise MissingError(f"There are no notebooks in {paths.NOTEBOOKS}.")
        return own
    files = []
    for asked in map(str, notebooks):
        matches = [f for f in own if f.stem == asked or f.name.startswith(asked)]
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
    return files


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
    for name, value in named.items():
        _check(path, name, value)
    return named


def _parse(text: str, path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(text, object_pairs_hook=_once)
    import yaml

    class Loader(yaml.SafeLoader):
        """Says so where a name stands twice; YAML's own takes the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            _once([(key, None) for key in keys])
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    names = [name for name, _ in pairs]
    if twice := [str(name) for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is given twice")
    return dict(pairs)


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
                f"No notebook has the parameter {', '.join(unknown)}; "
                f"they have: {', '.join(known) or 'none'}"
                + (f". Did you mean {close[0]}?" if close else "")
            )
        for file, names in declared.items():
            given[file] |= {k: v for k, v in every.items() if k in names}
        for name, file_named in alone.items():
            if file_named is None or file_named == Path():  # Path(): ours, but not run this time
                continue
            names = declared[file_named]
            if unknown := sorted(set(source[name]) - set(names)):
                raise InputError(
                    f"{file_named.stem} has no parameter {', '.join(unknown)}; "
                    f"it has: {', '.join(names) or 'none'}"
                )
            given[file_named] |= source[name]
    return given


def _named(declared: Mapping[Path, Any], name: str, value: Any) -> Path | None:
    """The notebook that `name` means, where it holds a mapping for one."""
    if not isinstance(value, dict):
        return None
    matches = [f for f in declared if f.stem == name] or [
        f for f in declared if f.stem.startswith(name)
    ]
    if len(matches) == 1:
        return matches[0]
    if any(name in names for names in declared.values()):
        return None  # a parameter whose value is a dict
    ours = paths.NOTEBOOKS.glob("*.ipynb") if paths.NOTEBOOKS.is_dir() else ()
    if not matches and sum(f.stem.startswith(name) for f in ours) == 1:
        return Path()
    what = "more than one notebook" if matches else "no notebook of this report"
    raise InputError(
        f"Parameters for {name!r}: that names {what}; they are: "
        + ", ".join(f.stem for f in declared)
    )

"""The build for devices: every shipped kernel and the pybind11 part, compiled by bisheng into one
extension module, `workbench._C_npu`.

    WORKBENCH_FORCE_ASCEND=1 pip install -e . --no-build-isolation

`setup.py` calls `build`. Nobody has run its result on a device for this project: the command lines
follow the vendor's documentation, and the tests run them against a stand-in for bisheng.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import workbench
from workbench import paths
from workbench.build import arch as archs
from workbench.build import cache, cann, compiler, extension, includes, steps, toolchain
from workbench.build import config as configs
from workbench.build.toolchain import Unit
from workbench.errors import BuildError, ConfigError, MissingError

ARCH = "WORKBENCH_ASCEND_ARCH"
OBJECT = "object"  # its name in the build cache
ENTRY_POINT = b"PyInit__C_npu"


# ---- what has to be there ----------------------------------------------------------------------


def find_arch() -> tuple[str, str]:
    """(architecture to build for, where that is known from).

    $WORKBENCH_ASCEND_ARCH, else the chips that `npu-smi` names.

    Raises:
        ConfigError: The variable names no architecture that a kernel runs on.
        MissingError: It is not set, and npu-smi is not there or its answer does not settle it.
    """
    given = os.environ.get(ARCH, "").strip()
    runs_on = {arch for spec in configs.specs().values() for arch in spec.raw["archs"]}
    runnable = sorted(runs_on & {*archs.names()})
    if given:
        if given in runnable:
            return given, f"${ARCH}"
        if given in archs.names():
            raise ConfigError(
                f"{ARCH}={given!r}: no shipped operator runs on {given}; they run on "
                f"{', '.join(runnable)}"
            )
        may_be = archs.of_chip(given)
        of_chip = [name for name in may_be if name in runnable] or may_be
        chip = f"it is a chip, whose architecture is {' or '.join(of_chip)}; " if of_chip else ""
        raise ConfigError(
            f"{ARCH}={given!r} is no architecture: {chip}the kernels run on {', '.join(runnable)}"
        )
    want = f"set {ARCH} to one of {', '.join(runnable)}"
    if shutil.which("npu-smi") is None:
        raise MissingError(
            f"the architecture to build for is not known: {ARCH} is not set and there is no "
            f"npu-smi on PATH to ask; {want}"
        )
    answer = _npu_smi("info")
    chips = chip_names(answer)
    if not chips:
        raise MissingError(
            f"the architecture to build for is not known: {ARCH} is not set and `npu-smi info` "
            f"names no chip; {want}. It said:\n{answer.strip()[:600] or '(nothing)'}"
        )
    choices = {chip: archs.of_chip(chip) for chip in chips}
    if any(len(names) > 1 for names in choices.values()):
        # "Ascend910" alone is a 910A or an Atlas A3; the board knows.
        for chip in [c for c, names in choices.items() if len(names) > 1]:
            choices[chip] = archs.of_chip(board_name(_npu_smi("info", "-t", "board", "-i", "0")))
    found = {name for names in choices.values() for name in names}
    shown = ", ".join(chips)
    if len(found) != 1 or not all(choices.values()):
        why = "which is not one known architecture"
        raise MissingError(
            f"the architecture to build for is not known: {ARCH} is not set and `npu-smi info` "
            f"names {shown}, {why}; {want}"
        )
    return found.pop(), f"npu-smi info ({shown})"


def _npu_smi(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["npu-smi", *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"npu-smi {' '.join(arguments)}: {e}"
    return done.stdout + done.stderr


def chip_names(answer: str) -> list[str]:
    """The names of the chips in the table that `npu-smi info` prints.

    Example:
        >>> chip_names("| 0     910B3               | OK            | 93.0        40   |")
        ['910B3']
    """
    # A row of a device begins with its number, its name and its health; the row under it with
    # the number of the chip alone.
    rows = re.findall(r"^\|\s*\d+\s+([A-Za-z0-9_]+)\s*\|\s*[A-Za-z]+\s*\|", answer, re.MULTILINE)
    return sorted(set(rows))


def board_name(answer: str) -> str:
    """The name of a chip from `npu-smi info -t board`: "910_9362" for the chip name Ascend910 and
    the NPU name 9362, as an Atlas A3 answers.

    Example:
        >>> board_name("        Chip Name       : Ascend910\\n        NPU Name    : 9362\\n")
        '910_9362'
    """
    pairs = dict(re.findall(r"^\s*(Chip Name|NPU Name)\s*:\s*(\S+)\s*$", answer, re.MULTILINE))
    chip = re.sub(r"^ascend", "", pairs.get("Chip Name", ""), flags=re.IGNORECASE)
    return f"{chip}_{pairs['NPU Name']}" if "NPU Name" in pairs else chip


def requirements() -> tuple[cann.Cann, str, str]:
    """(CANN, architecture, where that is known from).

    Raises:
        MissingError: Something is missing; all that is, each with how to get it.
        ConfigError: $WORKBENCH_ASCEND_ARCH names no architecture that a kernel runs on.
    """
    missing = []
    found, name, found_by = cann.find_cann(), "", ""
    if found is None:
        missing.append(
            "bisheng, CANN's compiler: not in $ASCEND_HOME_PATH, $ASCEND_TOOLKIT_HOME or "
            f"{cann.DEFAULT_HOME}. Install CANN 8.5 or newer and source its set_env.sh"
        )
    elif not any(list(p.glob("libascendcl.so*")) for p in found.libraries):
        looked = ", ".join(map(str, found.libraries)) or f"{found.home}/lib64, which is not there"
        missing.append(
            f"libascendcl.so: not in {looked}. The CANN found by {found.found_by} is not complete; "
            "install its toolkit package, or point ASCEND_HOME_PATH at another"
        )
    try:
        name, found_by = find_arch()
    except MissingError as e:
        missing.append(str(e))
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        missing.append(f"{header}: install python3-dev (Debian) or python3-devel (openEuler)")
    for module in ("pybind11", "platformdirs"):
        if importlib.util.find_spec(module) is None:
            missing.append(f"the Python package {module}: {sys.executable} -m pip install {module}")
    if missing:
        raise MissingError(
            f"the extension for NPUs ({extension.VARIABLE}=1) cannot be built; missing:\n"
            + "\n".join(f"  - {text}" for text in missing)
        )
    assert found is not None
    return found, name, found_by


# ---- what is built -----------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """One kernel file in the extension."""

    name: str  # "lm_head": before the names of its constants
    unit: Unit

    @property
    def function(self) -> str:
        return f"wb_table_{self.name}"


def files(arch: str) -> tuple[list[File], dict[str, dict[str, str]]]:
    """(every shipped kernel file with its default constants, {name: {source, why}} of those that
    are left out: the architecture is not in their spec).

    Raises:
        ConfigError: No operator runs on `arch`, or two files have a kernel of one name.
    """
    specs = {s.source.resolve(): s for s in configs.specs().values()}
    taken, left_out = [], {}
    for path in sorted(paths.ASCEND.rglob("*.asc")):
        spec = specs.get(path.resolve())
        if spec is not None and arch not in spec.raw["archs"]:
            why = f"it runs on {', '.join(spec.raw['archs'])}, not on {arch}"
            source = str(path.relative_to(paths.ASCEND))
            left_out[spec.op] = {"source": source, "why": why}
            continue
        config, wanted = configs.KernelConfig(arch=arch), None
        if spec is not None:
            config = spec.complete(config)
            spec.check(config)
            fit = [d for d in spec.dtypes if spec.fits(config, d)]
            wanted = [kernel for d in fit for kernel in spec.kernels(d)]
        name = spec.op if spec else re.sub(r"\W", "_", path.stem.removesuffix("_ascend"))
        taken.append(File(name, steps.read_unit(path, config, {}, wanted)))
    if specs and len(left_out) == len(specs):
        known = sorted({a for s in specs.values() for a in s.raw["archs"]})
        raise ConfigError(
            f"no shipped operator runs on {arch}; they run on {', '.join(known)}. Set {ARCH} to "
            "one of them, on a machine with such a device"
        )
    owners: dict[str, str] = {}
    for file in taken:
        for kernel in file.unit.kernels:
            other = owners.setdefault(kernel.short_name, file.name)
            if other != file.name:
                raise ConfigError(
                    f"{file.name} and {other} both have a kernel {kernel.short_name}; one module "
                    "launches by name, so rename one"
                )
    if len({f.name for f in taken}) != len(taken):
        raise ConfigError(f"two kernel files in {paths.ASCEND} go by one name; rename one")
    return taken, left_out


@dataclass(frozen=True)
class Step:
    """One command: what it makes of which files. It runs in a folder of its own, and names what is
    in there by plain names, so that the folder is not part of the key."""

    name: str  # the file it makes
    what: str  # in messages
    command: list[str]
    inputs: dict[str, str]  # {file name: digest} of what it reads besides
    texts: dict[str, str] = field(default_factory=dict)  # generated files
    objects: tuple[Path, ...] = ()
    users: tuple[str, ...] = ()  # files an error may be placed in

    def key(self, identity: Any) -> str:
        ours = str(paths.CSRC)  # where the sources lie does not change what they say
        material = {
            "format": extension.FORMAT,
            "command": [word.replace(ours, "csrc") for word in self.command],
            "inputs": sorted(self.inputs.items()),
            "texts": {n: t.replace(ours, "csrc") for n, t in sorted(self.texts.items())},
            "objects": [cache.file_digest(p) for p in self.objects],
            "identity": identity,
        }
        return includes.digest(json.dumps(material, sort_keys=True).encode())


class Build:
    """One build: its compiler, and the folder its objects are held in."""

    def __init__(self, chain: cann.CannToolchain, held: Path) -> None:
        self.chain = chain
        self.held = held
        self.identity = [chain.bisheng.identity, str(chain.cann.home)]
        self.made: list[str] = []  # what was compiled, not found in the cache

    def run(self, step: Step) -> Path:
        """The file that the step makes, in `held`; from the cache if nothing has changed."""
        key = step.key(self.identity)
        for attempt in range(steps.ATTEMPTS):
            with steps.again_if_vanished(attempt):
                entry = cache.get(key) or self._compile(key, step)
                try:
                    return Path(shutil.copyfile(entry.path(OBJECT), self.held / step.name))
                except FileNotFoundError:
                    raise cache.Vanished(f"{step.what} was removed; build again") from None
        raise AssertionError("not reached: the last attempt returns or raises")

    def _compile(self, key: str, step: Step) -> cache.Entry:
        with cache.workspace() as work:
            for name, text in step.texts.items():
                (work / name).write_text(text, "utf-8")
            for path in step.objects:
                shutil.copyfile(path, work / path.name)
            status, output = compiler.run(step.command, work, self.chain.environment)
            made = work / step.name
            if status == 0 and not (made.is_file() and made.stat().st_size):
                status, output = 1, f"{output}\n{step.command[0]} ended well but made no {made}"
            if status != 0:
                steps.refuse_full_disk(output)
                log = cache.write_log(f"aot-{step.name}-{key[:12]}", output)
                raise compiler.build_error(f"building {step.what}", output, step.users, log)
            self.made.append(step.name)
            os.rename(made, work / OBJECT)
            return cache.publish(key, work, [OBJECT], {"what": step.what, "log": output})


def compile_kernels(file: File, chain: cann.CannToolchain) -> Step:
    """The step that makes a kernel file's object."""
    out = f"{file.name}.o"
    return Step(
        name=out,
        what=file.unit.path.name,
        command=chain.compilation(file.unit, f"{file.name}.asc", out),
        inputs={**extension.sources(file.unit.path, file.unit.data), **_digests("kernel_table.h")},
        texts={f"{file.name}.asc": chain.text(file.unit, file.function)},
        users=(str(file.unit.path),),
    )


def compile_plain(chain: cann.CannToolchain, source: str, text: str | None = None) -> Step:
    """The step that makes the object of a plain C++ source: a file of csrc/ascend, or `text`."""
    out = f"{Path(source).stem}.o"
    where = source if text is not None else str(paths.ASCEND / source)
    flags = [*toolchain.python_include_flags(), f"-I{paths.ASCEND}"]
    names = ["kernel_table.h", *([source] if text is None else [])]
    python = {f"python {k}": v for k, v in toolchain.python_identity().items()}
    return Step(
        name=out,
        what=source,
        # No `-x asc`: the language of Ascend C must not see plain C++.
        command=[
            *[str(chain.cann.bisheng), "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"],
            *[*flags, "-c", where, "-o", out],
        ],
        inputs={**_digests(*names), **python},
        texts={source: text} if text is not None else {},
    )


def _digests(*names: str) -> dict[str, str]:
    return {name: includes.contents(str(paths.ASCEND / name))[1] for name in names}


def parts_text(taken: list[File], manifest: dict[str, Any]) -> str:
    """C++ text of the list of kernel files and of the manifest (csrc/ascend/merged_table.cpp)."""
    functions = [f"const wb_table *{f.function}(void);" for f in taken]
    rows = ", ".join(f'{{"{f.name}", {f.function}}}' for f in taken)
    return "\n".join(
        [
            "#include <kernel_table.h>",
            'extern "C" {',
            *functions,
            f"const wb_part wb_parts[] = {{{rows}}};",
            f"const uint32_t wb_n_parts = {len(taken)};",
            f'const char wb_manifest[] = R"wb({json.dumps(manifest)})wb";',
            "}",
            "",
        ]
    )


# ---- building it -------------------------------------------------------------------------------


def build(module: Path, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Build the extension into the file `module`, with its manifest beside it.

    Nothing is compiled anew that has not changed (the build cache holds the objects), and both
    files appear whole, or not at all.

    Args:
        module: Path of the module: in a package's folder, with this Python's suffix.
        say: Is told, a line at a time, which CANN, compiler and architecture are used.

    Returns:
        The manifest.

    Raises:
        MissingError: A tool or library is missing; all of them are named.
        BuildError: bisheng refused something; the message has its first error, `.log` all it said.
        ConfigError: The architecture is not known, or no operator runs on it.
        CacheError: The build cache cannot be used.
    """
    found, arch, arch_by = requirements()
    chain = cann.CannToolchain(found)
    taken, left_out = files(arch)
    say(f"CANN                 {found.home} ({found.found_by})")
    say(f"compiler             {found.bisheng}: {chain.bisheng.version}")
    say(f"architecture         {arch} ({arch_by})")
    for name, value in chain.environment.items():
        say(f"{name:20} {value}")
    say(f"kernels              {', '.join(f.name for f in taken)}")
    for name, entry in left_out.items():
        say(f"left out             {name}: {entry['why']}")
    with tempfile.TemporaryDirectory(prefix="workbench-aot-") as folder:
        work = Build(chain, Path(folder))
        commands = [compile_kernels(f, chain) for f in taken]
        commands += [compile_plain(chain, n) for n in ("npu_module.cpp", "merged_table.cpp")]
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            objects = list(pool.map(work.run, commands))
        manifest = _manifest(chain, arch, taken, left_out, objects)
        objects.append(work.run(compile_plain(chain, "parts.cpp", parts_text(taken, manifest))))
        names = [p.name for p in objects]
        link = Step(
            name=module.name,
            what=module.name,
            command=chain.link(names, module.name),
            inputs={},
            objects=tuple(objects),
        )
        linked = work.run(link)
        if ENTRY_POINT not in linked.read_bytes():
            raise BuildError(
                f"{found.bisheng} linked a {module.name} without {ENTRY_POINT.decode()}; check "
                "the compiler"
            )
        say(f"compiled             {', '.join(work.made) or 'nothing: all is as it was'}")
        manifest["module"], manifest["digest"] = module.name, cache.file_digest(linked)
        record = Path(folder) / "manifest.json"
        record.write_text(json.dumps(manifest, indent=2) + "\n")
        place(linked, module, record)
    say(f"built                {module}")
    return manifest


def _manifest(
    chain: cann.CannToolchain,
    arch: str,
    taken: list[File],
    left_out: dict[str, dict[str, str]],
    objects: list[Path],
) -> dict[str, Any]:
    """What the extension is made of; `build` is a digest of all that decides it."""
    parts = {
        f.name: {
            "source": os.path.relpath(f.unit.path, paths.ASCEND),
            "files": extension.sources(f.unit.path, f.unit.data),
            "defines": f.unit.defines,
            "flags": f.unit.define_flags,
            "kernels": [k.short_name for k in f.unit.kernels],
        }
        for f in taken
    }
    plain = [flag for flag in chain.flags(taken[0].unit) if not flag.startswith("-D")]
    manifest: dict[str, Any] = {
        "format": extension.FORMAT,
        "version": workbench.__version__,
        "arch": arch,
        "compiler": chain.compiler_name,
        "cann": str(chain.cann.home),
        "flags": plain,
        "python": toolchain.python_identity(),
        "shared": extension.shared_sources(),
        "parts": parts,
        "left_out": left_out,
    }
    marks = [*map(cache.file_digest, objects), json.dumps(manifest, sort_keys=True)]
    return {**manifest, "build": includes.digest("\n".join(marks).encode())}


def place(linked: Path, module: Path, record: Path | None = None) -> None:
    """Put a built module and its manifest where they belong, each by one rename.

    A reader that comes between the two renames sees a digest that does not match.
    """
    record = record or extension.manifest_path(linked)
    module.parent.mkdir(parents=True, exist_ok=True)
    for source, target in ((linked, module), (record, extension.manifest_path(module))):
        handle, fresh = tempfile.mkstemp(dir=module.parent, prefix=".", suffix=".tmp")
        os.close(handle)
        try:
            shutil.copyfile(source, fresh)
            os.chmod(fresh, 0o755 if source == linked else 0o644)
            os.replace(fresh, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
            raise


def check(package: Path) -> None:
    """That a built extension lies in a package's folder, whole and with its manifest.

    Raises:
        BuildError: It does not; without this a package could come out that has no kernels.
    """
    found = extension.look(package)
    if found.manifest is None:
        raise BuildError(
            f"{extension.VARIABLE}=1, and the extension is not in {package}: {found.reason}"
        )


def check_wheel(wheel: Path) -> None:
    """That a wheel has the extension, whole and with its manifest.

    Raises:
        BuildError: It does not.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-aot-") as folder:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"workbench/_C_npu\.[^/]*\.(so|json)", name):
                    archive.extract(name, folder)
        try:
            check(Path(folder) / "workbench")
        except BuildError as e:
            text = str(e).replace(folder, wheel.name)
            raise BuildError(f"{text}. The wheel was removed") from None

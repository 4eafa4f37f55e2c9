"""The long comparison of the twin with the numpy model.

    python tests/fuzz/long_run.py --seed 1 --count 1000000 [--ops Add,reduce] [--arch dav-2201]

Prints the seed, the instances and mismatches per instruction, and what was skipped because the twin
does not have it. Exit status: 0 equal everywhere and nothing skipped, 1 a mismatch, 3 skipped only.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
for at, word in enumerate(sys.argv):  # before the harness is imported: its memories have that size
    if word == "--image":
        os.environ["FUZZ_IMAGE"] = sys.argv[at + 1]

from models.vector import apply, settings  # noqa: E402

from fuzz import run as fuzz  # noqa: E402
from fuzz.interpreter import Twin, documented, select  # noqa: E402
from fuzz.mutants import MUTANTS  # noqa: E402
from fuzz.run import with_switches  # noqa: E402


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--ops", help="instructions or groups, separated by commas")
    parser.add_argument("--arch", default="dav-2201")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--by", choices=("op", "case"), default="op", help="what takes turns")
    parser.add_argument("--image", type=int, help="bytes of UB per instruction (default 8192)")
    parser.add_argument("--switch", action="append", default=[], help="name=value, as KernelConfig")
    parser.add_argument("--check", help="run the twin in checked mode: mem,init,race,sync")
    parser.add_argument("--keep", type=int, default=2, help="examples shown per instruction")
    parser.add_argument("--mutant", choices=MUTANTS, help="control: a model with one mistake")
    parser.add_argument("--list", action="store_true", help="list groups and instructions")
    return parser.parse_args(argv)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    cases = documented(select(args.ops), args.arch)
    if args.list:
        for (group, op), n in sorted(Counter((c.group, c.op) for c in cases).items()):
            print(f"{group:10} {op:20} {n:4} cases")
        return 0
    switches = dict(word.split("=", 1) for word in args.switch)
    twin = Twin(args.arch, args.blocks, switches, args.check)
    have = twin.prepare(cases, tell)
    next_word = args.count // 20

    def progress(report: fuzz.Report) -> None:
        nonlocal next_word
        if report.total >= next_word:
            next_word += args.count // 20
            rate = report.total / report.seconds
            tell(f"{report.total} instances, {rate:.0f}/s, {sum(report.wrong.values())} differ")

    report = fuzz.run(
        twin,
        have,
        args.count,
        args.seed,
        model=MUTANTS[args.mutant][0] if args.mutant else apply,
        arch=with_switches(settings(args.arch), switches),
        keep=args.keep,
        progress=progress,
        by=args.by,
    )
    print_report(report, args, twin, len(have), len(cases))
    if report.wrong:
        return 1
    return 3 if twin.missing else 0


def print_report(report: fuzz.Report, args, twin: Twin, have: int, wanted: int) -> None:
    print(
        f"seed {args.seed}, {args.arch}: {report.total} instances of {have} cases "
        f"in {report.seconds:.0f} s"
    )
    for op in sorted(report.ran):
        wrong = report.wrong[op]
        print(f"  {op:20} {report.ran[op]:8} {'equal' if not wrong else f'{wrong} DIFFER'}")
    for example in report.examples:
        print(example)
    if twin.missing:
        ops = Counter(name.split()[0] for name in twin.missing)
        print(f"skipped, not in the twin: {len(twin.missing)} of {wanted} cases")
        for op, n in sorted(ops.items()):
            reason = next(why for name, why in twin.missing.items() if name.split()[0] == op)
            print(f"  {op:20} {n:4} cases: {reason}")
    print(f"{sum(report.wrong.values())} mismatches")


if __name__ == "__main__":
    sys.exit(main())

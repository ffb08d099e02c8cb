"""`make bench`: every benchmark, then all measures beside their goals. `--against REVISION` compares with another revision.

`--quick` is a short run of each, in some minutes. Further options are those of `bench.ingest`.
"""

import subprocess
import sys

from bench import against
from bench.measures import folder_of, options, read_measures, show

_ALL = {
    "ingest": ("ingest", "peers", "freshness", "reads"),
    "many_plants": ("many_plants",),
    "history": ("history",),
    "lists": ("lists",),
    "fleet_api": ("fleet_api",),
    "gateway": ("gateway",),
    "memory": ("memory",),
    "streams": ("streams",),
    "console": ("console",),
}
"""The results that each module writes."""


def main() -> None:
    """Run all benchmarks and print what they wrote. Exit code 1 if one failed."""
    chosen, others = options("__main__", __doc__).parse_known_args()
    folder = folder_of(chosen)
    common = ["--output", str(folder), *(["--quick"] if chosen.quick else [])]
    failed = []
    for module in _ALL:
        more = others if module == "ingest" else []
        if subprocess.run([sys.executable, "-m", f"bench.{module}", *common, *more], check=False).returncode:
            failed.append(module)
    for module, names in _ALL.items():
        for name in names if module not in failed else ():
            with_goals = {key: one for key, one in read_measures(folder / f"{name}.json").items() if one.goal is not None}
            show(name, with_goals)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    if any(option.startswith("--against") for option in sys.argv[1:]):
        against.main()
    else:
        main()

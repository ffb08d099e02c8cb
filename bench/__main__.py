"""`make bench`: the benchmarks of ingest, history and lists; with `--against REVISION`, a comparison with another revision."""

import subprocess
import sys

from bench import against

_ALL = ("bench.ingest", "bench.history", "bench.lists")

if __name__ == "__main__":
    if any(option.startswith("--against") for option in sys.argv[1:]):
        against.main()
    else:
        for number, module in enumerate(_ALL):
            options = sys.argv[1:] if number == 0 else []
            subprocess.run([sys.executable, "-m", module, *options], check=True)

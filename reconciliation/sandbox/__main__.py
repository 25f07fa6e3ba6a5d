"""Start the sandbox ERP: `python -m reconciliation.sandbox --port 8002 --data .data/erp`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from payments.sandbox.server import command_line, serve
from reconciliation.sandbox.erp import Erp


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command_line("reconciliation.sandbox", "An ERP that keeps credit entries.")
    parser.add_argument(
        "--unique-reference",
        choices=("on", "off"),
        default="on",
        help="refuse a second entry with the same reference (default: on)",
    )
    options = parser.parse_args(arguments)
    unique = options.unique_reference == "on"
    return serve(parser, options, lambda: Erp(options.data, unique_reference=unique))


if __name__ == "__main__":
    sys.exit(main())

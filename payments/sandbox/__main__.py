"""Start the sandbox provider: `python -m payments.sandbox --port 8001 --data .data/provider`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from payments.sandbox.provider import Provider
from payments.sandbox.server import command_line, serve
from payments.sandbox.webhooks import Endpoint


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command_line("payments.sandbox", "A payment provider that moves no money.")
    parser.add_argument("--webhook-url", help="where refund events are sent")
    parser.add_argument(
        "--webhook-secret",
        default=os.environ.get("STRIPE_WEBHOOK_SECRET"),
        help="signs the events (default: STRIPE_WEBHOOK_SECRET)",
    )
    options = parser.parse_args(arguments)
    webhook = None
    if options.webhook_url:
        if not options.webhook_secret:
            parser.error("--webhook-url needs a --webhook-secret")
        webhook = Endpoint(options.webhook_url, options.webhook_secret)
    return serve(parser, options, lambda: Provider(options.data, webhook))


if __name__ == "__main__":
    sys.exit(main())

"""Black-box scenarios for any system that pays money back; run them against yours.

    pytest tests/drivable --driver your.module:YourSystem

A scenario knows only the driver (`driver.RefundSystem`), about ten short methods: sell something,
submit a message, approve, run the workers, lose the provider's next answer, list what left the
provider, list the states. The class is called without arguments and entered as a context manager.
What counts is the list of money-outs: take it from the provider's books, never from the system's
own.

`ours.RefundDesk` drives this product over HTTP, with its sandbox provider and ERP as processes of
their own. `naive.NaiveRefunds` shows what the scenarios are for: a small system of the kind that
is written every day, which checks before it acts. It must fail every scenario.
"""

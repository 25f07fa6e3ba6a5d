"""The sandbox payment provider: its own process, its own storage, Stripe's dialect.

Imports nothing from Django and nothing from the product, so that what it reports about money is
independent evidence. Start it with `python -m payments.sandbox --port N --data DIR`.
"""

"""The sandbox payment provider: its own process, its own storage, Stripe's dialect.

Imports nothing from Django and nothing from the product, so that what it reports about money is
independent evidence. Start it with `python -m payments.sandbox --port N --data DIR`.

Control API, for tests, drills and demos (JSON unless said otherwise):

    GET    /_control/health
    GET    /_control/ledger             every money-out; ?operation_key= narrows it
    GET    /_control/requests           every request seen
    GET    /_control/settlement.csv     every movement, major units
    POST   /_control/faults             {"mode", "times": 1, "match"?, "seconds": 1}, see faults.py
    GET    /_control/faults             those still to come; DELETE clears them
    POST   /_control/clock              {"advance_seconds"}
    POST   /_control/refunds/<id>       {"status": "succeeded" | "failed"}
    POST   /_control/payments           [{"payment", "amount" (minor units), "currency"}]
    POST   /_control/disputes           {"payment", "amount" (minor units)}: charged back
    GET    /_control/events             events with their deliveries
    POST   /_control/events             {"deliver": [event ids], "at_once": false}
    POST   /_control/webhooks           {"hold": true | false}
    POST   /_control/reset
"""

"""The sandbox ERP: its own process, its own storage, a small JSON interface for credit entries.

Start it with `python -m reconciliation.sandbox --port N --data DIR`. Imports nothing from Django;
journal, faults and HTTP server are the sandbox provider's.
"""

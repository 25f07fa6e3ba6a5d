"""The test of the tests: one safety rule of the product is switched off, and the suite goes red.

    python -m tests.switches [SWITCH ...]     one run per switch; prints a table

Each switch replaces, at run time and only in the process of that run, the one place where a rule
lives. A run that stays green would mean that no test protects that rule.
"""

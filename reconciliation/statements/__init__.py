"""Settlement files: what a provider says it has paid, read through a declared format.

A format is data: columns, encoding, decimal mark, date order, time zone, sign rule, row identity.
Nothing is guessed. What is not understood whole is refused with its line number.
"""

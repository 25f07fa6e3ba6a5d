"""Every interleaving of a few actors, one after the other: nothing is drawn, nothing is slept.

Actors are threads, each with a connection of its own, that run verbs of the product against the
real database and the sandbox provider. They stop at fail points; the explorer chooses who goes on,
and comes back until every choice has been made.
"""

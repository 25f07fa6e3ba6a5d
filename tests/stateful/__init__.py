"""The whole service against a reference model: hypothesis draws the stories, most of them unlikely.

    reference.py   what the desk must say, in plain Python
    witness.py     what nobody may ever see at the provider, whatever the network does
    world.py       sandboxes, database and clock of a story
    workers.py     workers that stop between two phases and come back, or never do
    machine.py     the steps of a story, and what is asserted after each

More stories than in CI, drawn anew each time: STATEFUL_EXAMPLES=5000 pytest tests/stateful
"""

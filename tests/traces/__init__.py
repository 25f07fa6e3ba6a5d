"""What the real code was seen to do is a way through the model of `tests.model`.

    runs       the product at work: the real provider's process, faults, time, workers that stop
    recorder   what the database noted of it, as one trace per payment
    seen       what a trace and the model can both show of a row
    checker    the states the model may be in after each step of a trace; none left: not a trace

The product's times are set to the model's, so that a tick of the clock is a step of both.
"""

"""The only source of time, randomness and threads in the product.

Every name here is the standard library's or trio's own function, so that the indirection costs nothing.  The
simulator replaces these names, and with them the clock, randomness and threads of the whole product.

Waiting without a thread uses trio, whose clock belongs to the run.
"""

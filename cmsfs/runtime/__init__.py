"""Where the product takes time, chance and threads from: nothing else asks the machine for them.

Every name here is the library's own function, so that asking costs what it would without.  Whoever wants
another world, as the simulator's stories do, sets these names, and the whole product lives in it.

Waiting without a thread is trio's, whose clock belongs to the run.
"""

"""Tables that several layers change, each in one module: nobody else writes to them."""
